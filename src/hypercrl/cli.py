"""The command `hypercrl`.

`hypercrl --help` answers at once: commands are imported only when they are called for. Whatever
goes wrong ends with one sentence and a status that is not 0: 2 where the person can put it right,
1 for anything else. `--debug`, anywhere, shows the traceback too.
"""

import contextlib
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from hypercrl.errors import UserError, in_one_sentence

PACKAGE = "hypercrl.commands"
NOT_A_COMMAND = {"arguments"}
DEBUG = "--debug"
STOPPED = "stopped; the same command takes up a run again."


def main(argv: list[str] | None = None) -> None:
    """Entry point; exits non-zero where something went wrong."""
    given = sys.argv[1:] if argv is None else argv
    args = [arg for arg in given if arg != DEBUG]
    debug = len(args) < len(given)
    _show_anything()
    try:
        with _interruptible() as stopped_by:
            _dispatch(args)
    except UserError as error:
        _complain(error, 2, debug)
    except KeyboardInterrupt:
        status = 128 + (stopped_by or [signal.SIGINT])[0]
        _say(STOPPED)
        _leave_at_once(status)
        sys.exit(status)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        _complain(error, 1, debug)


def _complain(error: Exception, status: int, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    hint = "" if debug or isinstance(error, UserError) else f" Add {DEBUG} to see where."
    _say(in_one_sentence(error) + hint)
    sys.exit(status)


def _say(text: str) -> None:
    print(f"hypercrl: {text}", file=sys.stderr)


def _show_anything() -> None:
    """Letters that a terminal does not have are written out, as `\\u2013`."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Ctrl-C, and a scheduler that takes the machine back, stop in order; a second time at once.

    Runs are safe against an end at any moment, and the processes of a sweep end with it.
    """
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            os.write(2, f"hypercrl: {STOPPED}\n".encode())
            os._exit(128 + number)
        raise KeyboardInterrupt

    before = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        # What is started in the background of a script ignores Ctrl-C, and so do we then.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
    try:
        yield received
    finally:
        if not received:  # else a second signal still finds us while we leave
            for number, handler in before.items():
                signal.signal(number, handler)


def _leave_at_once(status: int) -> None:
    """Whoever presses Ctrl-C again while we leave has been told already."""
    with contextlib.suppress(ValueError):  # not in the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(status))


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
        print(f"  {command:<10} {summary}")
    print("\n`hypercrl COMMAND --help` explains a command.")
    print(f"{DEBUG}, anywhere, shows the traceback behind a sentence.")


if __name__ == "__main__":
    main()
