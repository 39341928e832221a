"""What is left after so many tasks: a column for every time that all of them were tested."""

import numpy as np

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.lifetimes import NORMALISED, all_seen, is_life, life_matrices
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables.cells import mark_best, number_cell, percent_cell, sources

YOUTH = 0.2  # share of a life of which the table says nothing


def lifetime_table(comparison: Comparison) -> Table | None:
    """All tasks seen at each milestone, the first at the end, and all when they were new."""
    if not is_life(comparison):
        return None
    matrices, is_normalised = life_matrices(comparison)
    curves = [np.stack([all_seen(matrix) for matrix in found]) for found in matrices]
    old = [k for k in range(len(comparison.tasks)) if k + 1 >= YOUTH * len(comparison.tasks)]
    shown = [k for k in old if any(np.isfinite(curve[:, k]).any() for curve in curves)]
    cell = percent_cell if is_normalised else number_cell
    rows = []
    for found, curve in zip(matrices, curves, strict=True):
        life = np.stack(found)
        new = np.array([metrics.mean_of_defined(np.diagonal(matrix)) for matrix in found])
        rows.append([*(cell(curve[:, k]) for k in shown), cell(life[:, 0, -1]), cell(new)])
    unit = NORMALISED if is_normalised else "Return"
    return Table(
        "lifetime",
        "A lifetime",
        f"{unit}, averaged over all tasks seen, wherever all of them were tested at once; of the "
        "first task at the end; and of all tasks when each had just been learnt.",
        "Method",
        (*(f"After {k + 1} tasks" for k in shown), "The first, at the end", "Just learnt"),
        mark_best(comparison.entries, rows),
        sources(comparison.entries),
    )
