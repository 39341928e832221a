"""Flags from a dataclass, with one sentence for a wrong one."""

import difflib
import re
from typing import Any, TypeVar

import tyro

from hypercrl.errors import UserError

T = TypeVar("T")


def parse_flags(cls: type[T], args: list[str], *, prog: str, default: T | None = None) -> T:
    """An instance of a dataclass from command-line flags."""
    extra: dict[str, Any] = {} if default is None else {"default": default}
    options, unknown = tyro.cli(cls, args=args, prog=prog, return_unknown_args=True, **extra)
    if unknown:
        raise UserError(_unknown(cls, unknown[0], prog, extra))
    return options


def print_usage(doc: str | None, *, asked: bool) -> None:
    """A command's docstring as its help; an error where nobody asked for it."""
    text = (doc or "").strip()
    if asked:
        print(text)
        return
    usage = next(line for line in text.splitlines() if line.startswith("usage:"))
    raise UserError(f"Something is missing; {usage}.")


def _unknown(cls: type, argument: str, prog: str, extra: dict[str, Any]) -> str:
    if not argument.startswith("-"):
        return f"The argument '{argument}' is one too many; see `{prog} --help`."
    text = tyro.extras.get_parser(cls, prog=prog, **extra).format_help()
    known = sorted(set(re.findall(r"--[a-z][\w.-]*", text)))
    close = difflib.get_close_matches(argument, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"There is no flag {argument}; see `{prog} --help`.{hint}"
