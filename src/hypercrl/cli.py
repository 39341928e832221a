"""The command `hypercrl`.

`hypercrl --help` answers at once: commands are imported only when they are called for, and
bad input ends with one sentence and exit status 2.
"""

import importlib
import pkgutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from hypercrl.errors import UserError

PACKAGE = "hypercrl.commands"
NOT_A_COMMAND = {"arguments"}


def main(argv: list[str] | None = None) -> None:
    """Entry point; exits non-zero where something went wrong."""
    args = sys.argv[1:] if argv is None else argv
    try:
        _dispatch(args)
    except UserError as error:
        print(f"hypercrl: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("hypercrl: stopped; the same command takes up a run again.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(128 + signal.SIGPIPE)


def _dispatch(args: list[str]) -> None:
    commands = _commands()
    if not args or args[0] in ("-h", "--help"):
        _print_help(commands)
    elif args[0] == "--version":
        from importlib.metadata import version

        print(f"hypercrl {version('hypercrl')}")
    elif args[0] in commands:
        importlib.import_module(f"{PACKAGE}.{args[0]}").run(args[1:])
    else:
        raise UserError(f"There is no command '{args[0]}'; choose one of: {', '.join(commands)}.")


def _commands() -> list[str]:
    spec = find_spec(PACKAGE)
    assert spec is not None
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return [m.name for m in modules if m.name not in NOT_A_COMMAND]


def _print_help(commands: list[str]) -> None:
    print("usage: hypercrl COMMAND [...]\n")
    print("Continual model-based reinforcement learning: learn one dynamics after another")
    print("without forgetting.\n")
    folder = Path(next(iter(find_spec(PACKAGE).submodule_search_locations)))  # type: ignore
    for command in commands:
        # Read, not imported: a command may need what is slow to load.
        summary = (folder / f"{command}.py").read_text().split("\n", 1)[0].strip('"')
        print(f"  {command:<8} {summary}")
    print("\n`hypercrl COMMAND --help` explains a command.")


if __name__ == "__main__":
    main()
