"""Who does best: all methods in order, and each against each."""

import numpy as np

from hypercrl.analysis import metrics, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import UNDEFINED, percent
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import (
    estimate_cell,
    mark_best,
    number_cell,
    percent_cell,
    sources,
)

TOLERANCE = 0.5  # share of all runs that a tolerance interval is to hold


def ranking_table(comparison: Comparison) -> Table | None:
    """Methods by what they can do at the end, with how it came about beside it."""
    entries = comparison.entries
    by = "normalised return" if comparison.ranks_normalised else "plain return"
    missing = "" if comparison.ranks_normalised else " (not every method has a normalised one)"
    return Table(
        "ranking",
        "Ranking",
        f"Methods by their {by} at the end, mean over all tasks{missing}: the one number that "
        "counts both learning and keeping. Normalised, 0 is what random actions earn and 100 what "
        "a model reaches that learns each task alone. A method that learnt little can retain all "
        "of it, so retention is that of the tasks learnt. Half of all runs lie within the "
        "tolerance interval, with 95 % confidence; that takes 8 runs.",
        "Method",
        (
            "Normalised return, %",
            "IQM [95 %]",
            "Tolerance interval",
            "Tasks learnt",
            "Retention, %",
            "Forward transfer, %",
            "Return at the end",
        ),
        mark_best(entries, [_ranking_cells(entry) for entry in entries]),
        sources(entries),
    )


def _ranking_cells(entry: Entry) -> tuple[Cell, ...]:
    runs = entry.stack(lambda s: s.normalised_performance)
    tasks = entry.stack(lambda s: metrics.values(s.normalised))
    kept = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.retention)))
    helped = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.forward_transfer)))
    normalised = percent_cell(runs)
    if normalised.text == UNDEFINED:
        normalised = Cell(UNDEFINED, why_not_normalised(entry), normalised.numbers)
    bounds = statistics.tolerance_interval(runs, TOLERANCE)
    ends = {"low": bounds[0], "high": bounds[1]} if bounds else {"low": None, "high": None}
    learnt = metrics.mean_of_defined(entry.stack(lambda s: s.num_learnt))
    retention = percent_cell(kept)
    return (
        normalised,
        estimate_cell(statistics.estimate_iqm(list(tasks.T))),
        Cell(f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else UNDEFINED, "", ends),
        Cell(entry.learnt, numbers={"": learnt}),
        # No "mean": who has learnt little can keep all of it, so retention has no winner.
        Cell(retention.text, numbers={"average": retention.numbers["mean"]}),
        percent_cell(helped),
        number_cell(entry.stack(lambda s: s.average_performance)),
    )


def why_not_normalised(entry: Entry) -> str:
    """What a normalised return at the end is missing."""
    if entry.is_reference:
        return "reference"
    if np.isnan(entry.final_return):
        return "unfinished"
    if not entry.yardstick.runs:
        return "no reference"
    if np.isnan(entry.yardstick.random).all():
        return "random unknown"
    return "reference not learnt"


def improvement_table(comparison: Comparison) -> Table | None:
    """Probability that a run of the row's method ends with a higher return than the column's."""
    entries = comparison.entries
    if len(entries) < 2:
        return None
    strata = [list(entry.stack(lambda s: s.returns[:, -1]).T) for entry in entries]
    rows = [
        (
            entry.label,
            tuple(
                estimate_cell(statistics.estimate_improvement(ours, theirs))
                if ours is not theirs
                else Cell("")
                for theirs in strata
            ),
        )
        for entry, ours in zip(entries, strata, strict=True)
    ]
    return Table(
        "improvement",
        "Probability of improvement, %",
        "How probable it is that a run of the row's method ends with a higher return on a task "
        "than a run of the column's. 50 is no difference; below stands the 95 % interval.",
        "Row beats column",
        tuple(entry.label for entry in entries),
        tuple(rows),
        sources(entries),
    )
