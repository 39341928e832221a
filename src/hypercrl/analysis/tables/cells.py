"""What several tables share: cells over seeds, and the line that names the seeds."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import paper, statistics
from hypercrl.analysis.comparison import Entry
from hypercrl.analysis.formatting import percent, percent_spread, seeds, spread
from hypercrl.analysis.table_formats import Cell

Rows = tuple[tuple[str, tuple[Cell, ...]], ...]


def number_cell(found: Float[np.ndarray, "K"]) -> Cell:
    mean, deviation = statistics.mean_std(found)
    return Cell(spread(mean, deviation), numbers={"mean": mean, "std": deviation})


def percent_cell(found: Float[np.ndarray, "K"], published: paper.Number | None = None) -> Cell:
    mean, deviation = statistics.mean_std(found)
    numbers: dict[str, float | None] = {"mean": mean, "std": deviation}
    note = ""
    if published:
        note = f"paper {published[0]:.0f} ± {published[1]:.0f}".replace("-", "−")
        numbers |= {"paper mean": published[0] / 100, "paper std": published[1] / 100}
    return Cell(percent_spread(mean, deviation), note, numbers)


def estimate_cell(estimate: statistics.Estimate) -> Cell:
    """A value with its interval below."""
    low, high = estimate.interval or (math.nan, math.nan)
    note = f"{percent(low)} to {percent(high)}" if estimate.interval else ""
    return Cell(percent(estimate.value), note, {"": estimate.value, "low": low, "high": high})


def mark_best(entries: Sequence[Entry], cells: Sequence[Sequence[Cell]]) -> Rows:
    """Rows in which the highest mean of every column is marked, if there is a competition.

    The reference takes no part.
    """
    marked = [list(row) for row in cells]
    for column in range(len(cells[0]) if cells else 0):
        means = [
            None if entry.is_reference else row[column].numbers.get("mean")
            for entry, row in zip(entries, cells, strict=True)
        ]
        shown = [mean for mean in means if mean is not None and math.isfinite(mean)]
        for row, mean in zip(marked, means, strict=True):
            if len(shown) > 1 and mean is not None and mean == max(shown):
                row[column] = replace(row[column], best=True)
    return tuple((entry.label, tuple(row)) for entry, row in zip(entries, marked, strict=True))


def sources(entries: Sequence[Entry]) -> str:
    """Entries by their seeds, those with the same seeds together."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for entry in entries:
        groups.setdefault(entry.seeds, []).append(entry.label)
    return "; ".join(f"{', '.join(labels)} ({seeds(key)})" for key, labels in groups.items()) + "."
