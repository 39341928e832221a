"""Print what makes a shell complete commands, flags and names.

usage: hypercrl completion bash|zsh|fish

For bash, `hypercrl completion bash > ~/.local/share/bash-completion/completions/hypercrl`; for
zsh, `source <(hypercrl completion zsh)` in ~/.zshrc; for fish, `hypercrl completion fish >
~/.config/fish/completions/hypercrl.fish`.
"""

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import tyro

from hypercrl.commands.arguments import output_of, parse_flags
from hypercrl.registry import learners, planners, suites

Shell = Literal["bash", "zsh", "fish"]

EXAMPLE = {"train": ["cartpole", "hypercrl"]}
"""What a command must be given before it shows all its flags."""

BASH = """\
_hypercrl() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
        COMPREPLY=($(compgen -f -- "$current"))
    fi
    COMPREPLY+=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _hypercrl hypercrl
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True)
class Options:
    shell: Annotated[Shell, tyro.conf.Positional]
    """Which shell."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl completion", doc=__doc__)
    words = _words()
    if options.shell == "fish":
        print(_fish(words), end="")
    else:
        print((ZSH if options.shell == "zsh" else "") + _bash(words), end="")


def _words() -> dict[str, list[str]]:
    """What may follow each command: its flags, and names where it takes them."""
    # The dispatcher knows the commands, but it imports them and not they it.
    package = importlib.import_module("hypercrl.commands")
    cli = importlib.import_module("hypercrl.cli")
    shown = dict.fromkeys(("play", "view", "export", "test"), suites.names())
    made = [*suites.names(), *learners.names(), *planners.names()]
    names = {**shown, **dict.fromkeys(("train", "sweep", "check"), made)}
    names["completion"] = list(get_args(Shell))
    return {
        command: [*names.get(command, []), *_flags(f"{package.__name__}.{command}", command)]
        for command in cli._commands()
    }


def _flags(module: str, command: str) -> list[str]:
    def show(args: list[str]) -> None:
        importlib.import_module(module).run(args)

    text = output_of(show, [*EXAMPLE.get(command, []), "--help"])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", text)))


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(
        f'            {command}) words="{" ".join(flags)}" ;;' for command, flags in words.items()
    )
    return BASH.format(commands=" ".join(words), cases=cases)


def _fish(words: dict[str, list[str]]) -> str:
    lines = [f'complete -c hypercrl -n __fish_use_subcommand -f -a "{" ".join(words)}"']
    for command, flags in words.items():
        condition = f'-n "__fish_seen_subcommand_from {command}"'
        lines.append(f'complete -c hypercrl {condition} -a "{" ".join(flags)}"')
    return "\n".join(lines) + "\n"
