"""The one place that reads files which somebody else may have written.

A run's folder may come from another machine or another person, so that nothing about it is
taken for granted: only regular files are read (a pipe would wait for ever, a link may lead
anywhere), only up to a size, and what they hold is plain data of a bounded depth.
"""

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypercrl.errors import UserError, printable

LARGEST_CONFIG = 16_000_000  # bytes, as of the other kinds below
LARGEST_LIST = 64_000_000
LARGEST_RECORDS = 2_000_000_000
LARGEST_PLAN = 1_000_000
DEEPEST = 20  # lists and mappings within each other; ours have six
MOST_VALUES = 1_000_000  # in one file, counted as often as they are referred to
LARGEST_INTEGER = 2**63


def read_bytes(path: Path, largest: int, *, follow: bool = False) -> bytes:
    """A regular file of at most `largest` bytes; `follow` is for links that a person has named.

    A missing file raises FileNotFoundError, anything else that is wrong a UserError.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UserError(f"{show(path)} cannot be read: it is not a regular file.")
            if found.st_size > largest:
                raise UserError(f"{show(path)} cannot be read: it has over {largest:,} bytes.")
            return file.read(largest)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(error)) from error
    except OSError as error:
        raise UserError(f"{show(path)} cannot be read: {_reason(path, error)}.") from error


def read_json(path: Path, largest: int) -> Any:
    """What a JSON file holds; a missing one raises FileNotFoundError."""
    content = read_bytes(path, largest)
    try:
        data = parse_json(content.decode("utf-8"))
        check(data)
    except ValueError as error:
        reason = "it is not valid JSON" if isinstance(error, UnicodeDecodeError) else error
        raise UserError(f"{show(path)} is damaged: {reason}.") from error
    return data


def read_yaml(path: Path) -> Any:
    """What a YAML file holds that a person has named."""
    import yaml

    try:
        data = yaml.safe_load(read_bytes(path, LARGEST_PLAN, follow=True).decode("utf-8"))
        check(data)
    except FileNotFoundError as error:
        raise UserError(f"{show(path)} cannot be read: there is no such file.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = printable(" ".join(str(error).split()))[:200].rstrip(".")
        raise UserError(f"{show(path)} is not valid YAML: {place}.") from error
    return data


def require_regular(path: Path) -> None:
    """For files that a library opens itself."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{show(path)} cannot be read: it is not a regular file.")


def is_regular(path: Path) -> bool:
    """Whether there is a file that is neither a link nor anything else."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def parse_json(text: str) -> Any:
    """Plain data; a ValueError says why a text is none."""
    try:
        return _DECODER.decode(text)
    except _ConstantError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not valid JSON") from error


def check(data: Any) -> None:
    """Refuse, by a ValueError, what is too deep, too much, or not a number of this world."""
    todo, seen = [(data, 0)], 0
    while todo:
        value, depth = todo.pop()
        seen += 1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if seen > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES:,} values")
        if isinstance(value, Mapping):
            todo += [(one, depth + 1) for pair in value.items() for one in pair]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += [(one, depth + 1) for one in value]
        elif isinstance(value, int | float):
            check_number(value)


def check_number(value: float) -> None:
    """Refuse, by a ValueError, a number that is endless or that no array could hold."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"it holds {value}, which is no finite number")
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError("it holds a whole number of more than 64 bits")


def check_names(data: Any) -> None:
    """Refuse, by a ValueError, text that a terminal or a page could not show as it is."""
    if isinstance(data, str) and not data.isprintable():
        raise ValueError(f"it holds '{printable(data)[:60]}', which no terminal can show")
    if isinstance(data, Mapping):
        for name, value in data.items():
            check_names(name)
            check_names(value)
    elif isinstance(data, list | tuple):
        for value in data:
            check_names(value)


def show(path: Path) -> str:
    """A path within a sentence, whatever its name is made of."""
    return printable(str(path))


class _ConstantError(ValueError):
    """A constant that JSON does not have."""


def _refuse_constant(name: str) -> float:
    raise _ConstantError(f"it holds {name}, which is no finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _reason(path: Path, error: OSError) -> str:
    if path.is_symlink():
        return "it is a link, and links are not followed"
    return error.strerror or str(error)
