"""The few numbers that open a report: who does best, honestly told.

Methods that store old transitions play an easier game; the highlight names the best one
without, and beside it the best one with. The reference method takes no part.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hypercrl.analysis import metrics, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import number, percent

Measure = Callable[[Entry], statistics.Estimate]

_NO_BREAK = "\N{NO-BREAK SPACE}"


class Write(Protocol):
    """How a value becomes text, with the decimals that suit it or another value."""

    def __call__(self, value: float, like: float | None = None) -> str: ...


@dataclass(frozen=True)
class Highlight:
    """One card: a title, a value with its unit, who reached it, and who else is worth a line."""

    title: str
    value: str
    unit: str
    label: str
    interval: str
    aside: str


def find_highlights(comparison: Comparison) -> list[Highlight]:
    """The highlights that the comparison has numbers for."""
    wanted: list[tuple[str, str, Write, Measure, bool]] = [
        ("Best retention", "%", percent, _retention, True),
        ("Best forward transfer", "%", percent, _forward_transfer, True),
        ("Highest return at the end", "", number, _final_return, True),
        ("Lowest model error at the end", "", number, _final_error, False),
    ]
    found = (_highlight(comparison, *row) for row in wanted)
    return [highlight for highlight in found if highlight is not None]


def _highlight(
    comparison: Comparison,
    title: str,
    unit: str,
    write: Write,
    measure: Measure,
    higher_is_better: bool,
) -> Highlight | None:
    sign = 1 if higher_is_better else -1
    measured = [(entry, measure(entry)) for entry in comparison.entries if not entry.is_reference]
    ranked = sorted(
        (pair for pair in measured if math.isfinite(pair[1].value)),
        key=lambda pair: -sign * pair[1].value,
    )
    frugal = [pair for pair in ranked if not pair[0].keeps_old_data]
    hoarding = [pair for pair in ranked if pair[0].keeps_old_data]
    if not ranked:
        return None
    entry, estimate = (frugal or hoarding)[0]
    aside = ""
    if frugal and hoarding:
        rival, theirs = hoarding[0]
        aside = f"With old data: {rival.label} {_with_unit(write(theirs.value), unit)}"
    elif len(ranked) > 1:
        rival, theirs = ranked[1]
        aside = f"Next: {rival.label} {_with_unit(write(theirs.value), unit)}"
    interval = ""
    if estimate.interval:
        low, high = (write(end, like=estimate.value) for end in estimate.interval)
        interval = f"{low} to {high}"
    return Highlight(title, write(estimate.value), unit, entry.label, interval, aside)


def _with_unit(value: str, unit: str) -> str:
    return f"{value}{_NO_BREAK}{unit}" if unit else value


def _retention(entry: Entry) -> statistics.Estimate:
    return statistics.estimate_iqm(list(entry.stack(lambda s: metrics.values(s.retention)).T))


def _forward_transfer(entry: Entry) -> statistics.Estimate:
    found = entry.stack(lambda s: metrics.values(s.forward_transfer))
    return statistics.estimate_iqm(list(found.T))


def _final_return(entry: Entry) -> statistics.Estimate:
    return statistics.estimate_iqm(list(entry.stack(lambda s: s.returns[:, -1]).T))


def _final_error(entry: Entry) -> statistics.Estimate:
    return statistics.estimate_iqm(list(np.asarray(entry.stack(lambda s: s.one_step[:, -1])).T))
