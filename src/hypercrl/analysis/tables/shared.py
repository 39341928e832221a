"""What several tables share: cells over seeds, and the line that names the seeds."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import paper, statistics
from hypercrl.analysis.comparison import Entry
from hypercrl.analysis.formatting import percent_spread, seeds, spread
from hypercrl.analysis.table_formats import Cell


def number_cell(found: Float[np.ndarray, "K"]) -> Cell:
    mean, deviation = statistics.mean_std(found)
    return Cell(spread(mean, deviation), numbers={"mean": mean, "std": deviation})


def percent_cell(found: Float[np.ndarray, "K"], published: paper.Number | None) -> Cell:
    mean, deviation = statistics.mean_std(found)
    numbers: dict[str, float | None] = {"mean": mean, "std": deviation}
    note = ""
    if published:
        note = f"paper {published[0]:.0f} ± {published[1]:.0f}".replace("-", "−")
        numbers |= {"paper mean": published[0] / 100, "paper std": published[1] / 100}
    return Cell(percent_spread(mean, deviation), note, numbers)


def sources(entries: Sequence[Entry]) -> str:
    """Entries by their seeds, those with the same seeds together."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for entry in entries:
        groups.setdefault(entry.seeds, []).append(entry.label)
    return "; ".join(f"{', '.join(labels)} ({seeds(key)})" for key, labels in groups.items()) + "."
