"""What a configuration's fields may be; a wrong one is told in one sentence.

Each function takes the object and the names of its fields, so that the sentence can name both.
"""

import math
from collections.abc import Iterable
from typing import Any

from hypercrl.errors import UserError


def at_least(owner: Any, lowest: float, *names: str) -> None:
    """Fields of numbers, or of tuples of numbers, that may not be below `lowest`."""
    for name in names:
        for value in _each(owner, name):
            if not value >= lowest:
                _refuse(owner, name, f"at least {lowest:g}")


def above(owner: Any, bound: float, *names: str) -> None:
    """Fields that must be more than `bound`, and finite."""
    for name in names:
        for value in _each(owner, name):
            if not (value > bound and math.isfinite(value)):
                _refuse(owner, name, f"above {bound:g} and finite")


def below(owner: Any, bound: float, *names: str) -> None:
    """Fields that must be less than `bound`."""
    for name in names:
        for value in _each(owner, name):
            if not value < bound:
                _refuse(owner, name, f"below {bound:g}")


def between(owner: Any, lowest: float, highest: float, *names: str) -> None:
    """Fields from `lowest` to `highest`, both included."""
    for name in names:
        for value in _each(owner, name):
            if not lowest <= value <= highest:
                _refuse(owner, name, f"from {lowest:g} to {highest:g}")


def not_empty(owner: Any, *names: str) -> None:
    """Fields that hold one number or several."""
    for name in names:
        if not getattr(owner, name):
            _refuse(owner, name, "one number or several")


def one_of(owner: Any, known: Iterable[str], *names: str) -> None:
    """Fields that name one of a few things."""
    choices = list(known)
    for name in names:
        if getattr(owner, name) not in choices:
            _refuse(owner, name, f"one of: {', '.join(choices)}")


def _each(owner: Any, name: str) -> Iterable[Any]:
    value = getattr(owner, name)
    return value if isinstance(value, tuple) else (value,)


def _refuse(owner: Any, name: str, wanted: str) -> None:
    value = getattr(owner, name)
    raise UserError(f"{type(owner).__name__}'s {name} must be {wanted}; it was given {value!r}.")
