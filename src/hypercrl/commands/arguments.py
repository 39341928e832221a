"""Flags from a dataclass, with one sentence for a wrong one."""

import contextlib
import difflib
import functools
import io
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import tyro

from hypercrl.errors import UserError
from hypercrl.registry import load_plugin

PLUGIN = "--plugin"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PluginOptions:
    """For commands that know suites, methods and planners by name."""

    plugin: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Modules or files that register suites, methods or planners of their own: repeat the flag,
    name several files after it, or separate them by commas."""


def parse_flags(cls: type[T], args: list[str], *, prog: str, doc: str | None) -> T:
    """An instance of a dataclass from flags; `doc`, the command's docstring, opens its help.

    The plugins that are asked for are loaded.
    """
    args = one_plugin_a_flag(args)
    if not args and "usage:" in (doc or ""):
        raise missing(doc)
    about = "\n\n".join(part for part in _parts(doc) if not part.startswith("usage:"))
    parse = functools.partial(tyro.cli, cls, prog=prog, description=about, return_unknown_args=True)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            options, unknown = parse(args=args)
    except SystemExit as stop:
        if not stop.code:  # help was asked for
            raise
        raise UserError(_in_one_sentence(output_of(parse, args), prog)) from None
    if unknown:
        raise UserError(_unknown(unknown[0], prog, output_of(parse, ["--help"])))
    if isinstance(options, PluginOptions):
        for plugin in options.plugin:
            load_plugin(plugin)
    return options


def one_plugin_a_flag(args: list[str]) -> list[str]:
    """The same arguments with plugins given in the one way that every parser knows.

    `--plugin a.py b.py`, `--plugin a.py,b.py` and `--plugin=a.py` become `--plugin a.py …`. What
    follows the first plugin is another one only if it is a file: it may as well be a suite.
    """
    spread: list[str] = []
    listing = 0  # 2: a plugin must come now, 1: another may
    for arg in args:
        if arg == PLUGIN:
            listing = 2
        elif arg.startswith(f"{PLUGIN}="):
            spread += _flags(arg.removeprefix(f"{PLUGIN}="))
            listing = 1
        elif listing == 2 or (listing and arg.endswith(".py") and not arg.startswith("-")):
            spread += _flags(arg)
            listing = 1
        else:
            spread.append(arg)
            listing = 0
    return [*spread, PLUGIN] if listing == 2 else spread


def _flags(plugins: str) -> list[str]:
    return [part for plugin in plugins.split(",") for part in (PLUGIN, plugin)]


def missing(doc: str | None) -> UserError:
    """What to say to somebody who has not named everything that a command needs."""
    usage = next(part for part in _parts(doc) if part.startswith("usage:"))
    return UserError(f"Something is missing; {usage}.")


def _parts(doc: str | None) -> list[str]:
    return (doc or "").strip().split("\n\n")


def output_of(parse: Callable[..., Any], args: list[str]) -> str:
    """What a parser prints before it exits, as it would in a terminal without colours."""
    # A shell hands on bytes that are no text as surrogates, which UTF-8 has no place for.
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(SystemExit),
    ):
        parse(args=args)
    printed.seek(0)
    return printed.read()


def _in_one_sentence(box: str, prog: str) -> str:
    """What a box that tyro drew around an error says, without the help that follows it."""
    rows = [line.strip("│ ") for line in box.splitlines() if line.startswith("│")]
    told = itertools.takewhile(lambda row: not row.startswith("─"), rows)
    sentence = " ".join(told).rstrip(".") or "The flags cannot be understood"
    return f"{sentence}; see `{prog} --help`."


def _unknown(argument: str, prog: str, text: str) -> str:
    if not argument.startswith("-"):
        return f"The argument '{argument}' is one too many; see `{prog} --help`."
    known = sorted(set(re.findall(r"--[a-z][\w.-]*", text)))
    close = difflib.get_close_matches(argument, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"There is no flag {argument}; see `{prog} --help`.{hint}"
