"""Promises, and what becomes of them when they are tried."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypercrl.errors import UserError

Promise = Callable[[Any], None]


class BrokenPromiseError(AssertionError):
    """A promise is not kept; one sentence says what was seen instead."""


def require(kept: Any, sentence: str) -> None:
    if not kept:
        raise BrokenPromiseError(sentence)


@dataclass(frozen=True)
class Verdict:
    """What came of one promise."""

    promise: str  # what is promised, in words
    problem: str = ""  # empty where it was kept


def try_out(promises: Sequence[Promise], set_up: Callable[[], Any]) -> Iterator[Verdict]:
    """Try every promise on what `set_up` makes, also after one was broken."""
    made = []
    problem = _problem(lambda: made.append(set_up()))
    if problem:
        yield Verdict("It can be set up and tried", problem)
        return
    for promise in promises:
        text = (promise.__doc__ or promise.__name__).split("\n\n")[0].rstrip(".")
        yield Verdict(" ".join(text.split()), _problem(functools.partial(promise, made[0])))


def _problem(action: Callable[[], None]) -> str:
    try:
        action()
    except (BrokenPromiseError, UserError) as error:
        return str(error)
    except Exception as error:  # of whoever wrote the subject
        reason = (str(error) or "no reason given").splitlines()[0].rstrip(".")
        return f"It ended with {type(error).__name__}: {reason}."
    return ""
