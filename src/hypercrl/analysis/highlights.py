"""The few numbers that open a report: who does best, honestly told.

Methods are ranked by what they can do at the end. Methods that store old transitions play an
easier game; a card names the best one without, and beside it the best one with. What the
leader keeps stands beside how much it learnt: the highest retention of all may be that of a
method that learnt next to nothing. The reference method takes no part.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypercrl.analysis import metrics, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import UNDEFINED, number, percent

Measure = Callable[[metrics.Scores], float]
Write = Callable[..., str]  # with the decimals that suit a value, or those `like` another

_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Highlight:
    """One card: a title, a value with its unit, who reached it, and what else is worth a line."""

    title: str
    value: str
    unit: str
    label: str
    interval: str
    aside: str


def find_highlights(comparison: Comparison) -> list[Highlight]:
    """The highlights that the comparison has numbers for: means over tasks and seeds."""
    entries = comparison.competitors
    leader = [entry for entry in entries if not entry.keeps_old_data][:1] or entries[:1]
    comparable = [entry for entry in entries if entry.has_common_probe]
    best = (
        ("Highest normalised return at the end", "%", percent, lambda s: s.normalised_performance)
        if comparison.ranks_normalised
        else ("Highest return at the end", "", number, lambda s: s.average_performance)
    )
    found = (
        _highlight(entries, *best),
        _highlight(leader, "What the leader retains", "%", percent, lambda s: s.mean_retention),
        _highlight(entries, "Best forward transfer", "%", percent, lambda s: s.mean_transfer),
        _highlight(comparable, "Lowest model error at the end", "", number, _final_error, min),
    )
    return [highlight for highlight in found if highlight is not None]


def _highlight(
    entries: Sequence[Entry],
    title: str,
    unit: str,
    write: Write,
    measure: Measure,
    best: Callable = max,
) -> Highlight | None:
    measured = {entry.label: statistics.mean_std(entry.stack(measure)) for entry in entries}
    known = [entry for entry in entries if math.isfinite(measured[entry.label][0])]
    if not known:
        return None

    def mean(entry: Entry) -> float:
        return measured[entry.label][0]

    frugal = [entry for entry in known if not entry.keeps_old_data]
    hoarding = [entry for entry in known if entry.keeps_old_data]
    winner = best(frugal or known, key=mean)
    others = [entry for entry in known if entry is not winner]
    lines = [f"{winner.learnt} tasks learnt"] if winner.learnt != UNDEFINED else []
    if others:
        word, group = ("With old data", hoarding) if frugal and hoarding else ("Next", others)
        rival = best(group, key=mean)
        written = write(mean(rival)) + (_NO_BREAK + unit if unit else "")
        learnt = f", {rival.learnt} learnt" if rival.learnt != UNDEFINED else ""
        lines.append(f"{word}: {rival.label} {written}{learnt}")
    deviation = measured[winner.label][1]
    spread = "" if deviation is None else f"± {write(deviation, like=mean(winner))}"
    return Highlight(title, write(mean(winner)), unit, winner.label, spread, ". ".join(lines))


def _final_error(scores: metrics.Scores) -> float:
    return metrics.mean_of_defined(scores.one_step[:, -1])
