"""Flags from a dataclass, with one sentence for a wrong one."""

import contextlib
import difflib
import io
import itertools
import re
from typing import Any, TypeVar

import tyro

from hypercrl.errors import UserError

T = TypeVar("T")


def parse_flags(cls: type[T], args: list[str], *, prog: str, default: T | None = None) -> T:
    """An instance of a dataclass from command-line flags."""
    extra: dict[str, Any] = {} if default is None else {"default": default}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            options, unknown = tyro.cli(
                cls, args=args, prog=prog, return_unknown_args=True, **extra
            )
    except SystemExit as stop:
        if not stop.code:  # help was asked for
            raise
        raise UserError(_in_one_sentence(printed.getvalue(), prog)) from None
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


def _in_one_sentence(box: str, prog: str) -> str:
    """What a box that tyro drew around an error says, without the help that follows it."""
    rows = [line.strip("│ ") for line in box.splitlines() if line.startswith("│")]
    told = itertools.takewhile(lambda row: not row.startswith("─"), rows)
    sentence = " ".join(told).rstrip(".") or "The flags cannot be understood"
    return f"{sentence}; see `{prog} --help`."


def _unknown(cls: type, argument: str, prog: str, extra: dict[str, Any]) -> str:
    if not argument.startswith("-"):
        return f"The argument '{argument}' is one too many; see `{prog} --help`."
    text = tyro.extras.get_parser(cls, prog=prog, **extra).format_help()
    known = sorted(set(re.findall(r"--[a-z][\w.-]*", text)))
    close = difflib.get_close_matches(argument, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"There is no flag {argument}; see `{prog} --help`.{hint}"
