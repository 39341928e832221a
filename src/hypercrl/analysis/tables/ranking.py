"""Who does best: all methods in order, and each against each."""

import math
from dataclasses import replace

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


def ranking_table(comparison: Comparison) -> Table:
    """Methods by what they can do at the end, with how it came about beside it."""
    entries = comparison.entries
    columns = {
        "Normalised return, %": [_normalised_cell(entry) for entry in entries],
        "Tasks learnt": [Cell(entry.learnt) for entry in entries],
        "IQM [95 %]": [_iqm_cell(entry) for entry in entries],
        "Half of all runs": [_tolerance_cell(entry) for entry in entries],
        "Retention, %": [_retention_cell(entry) for entry in entries],
        "Forward transfer, %": [percent_cell(e.stack(lambda s: s.mean_transfer)) for e in entries],
        "Return at the end": [
            number_cell(entry.stack(lambda s: s.average_performance)) for entry in entries
        ],
    }
    has_tolerance = any(cell.text != UNDEFINED for cell in columns["Half of all runs"])
    if not has_tolerance:
        del columns["Half of all runs"]
    return Table(
        "ranking",
        "Ranking",
        _reading(comparison, has_tolerance),
        "Method",
        tuple(columns),
        mark_best(entries, list(zip(*columns.values(), strict=True))),
        sources(entries),
    )


def _reading(comparison: Comparison, has_tolerance: bool) -> str:
    by = "normalised return" if comparison.ranks_normalised else "plain return"
    missing = "" if comparison.ranks_normalised else " (there is no reference that all share)"
    text = (
        f"Methods by their {by} at the end, mean over all tasks{missing}: the one number that "
        "counts both learning and keeping. Normalised, 0 is what random actions earn and 100 what "
        "a model reaches that learns each task alone. A method that learnt little can retain all "
        "of it: read retention with the number of tasks learnt."
    )
    if has_tolerance:
        text += " Half of all runs lie in the tolerance interval, with 95 % confidence."
    tested = [entry.stack(lambda s: np.diagonal(s.returns)) for entry in comparison.entries]
    begun = np.isfinite(np.concatenate(tested)).any(0)
    if np.isnan(comparison.entries[0].yardstick.random[begun]).any():
        text += (
            " What random actions earn was not measured (runs of version 0.1.0): nothing is "
            "normalised, and gains are counted from 0."
        )
    return text


def _normalised_cell(entry: Entry) -> Cell:
    cell = percent_cell(entry.stack(lambda s: s.normalised_performance))
    return cell if cell.text != UNDEFINED else replace(cell, note=why_not_normalised(entry))


def _iqm_cell(entry: Entry) -> Cell:
    tasks = entry.stack(lambda s: metrics.values(s.normalised))
    return estimate_cell(statistics.estimate_iqm(list(tasks.T)))


def _tolerance_cell(entry: Entry) -> Cell:
    runs = entry.stack(lambda s: s.normalised_performance)
    low, high = statistics.tolerance_interval(runs, TOLERANCE) or (math.nan, math.nan)
    text = f"{percent(low)} to {percent(high)}" if math.isfinite(low) else UNDEFINED
    return Cell(text, numbers={"low": low, "high": high})


def _retention_cell(entry: Entry) -> Cell:
    cell = percent_cell(entry.stack(lambda s: s.mean_retention))
    # Not under the name of a mean: who has learnt little can keep all of it, so nobody wins.
    return Cell(cell.text, numbers={"average": cell.numbers["mean"]})


def why_not_normalised(entry: Entry) -> str:
    """What a normalised return at the end is missing."""
    if entry.is_reference:
        return "learns each task alone"
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
