"""How well a method's models predict, whatever the planner makes of them."""

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.formatting import UNDEFINED
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import number_cell, sources


def model_error_table(comparison: Comparison) -> Table | None:
    """Model error, averaged over tasks: when each was learnt, and at the end."""
    rows = []
    for entry in comparison.entries:
        cells = []
        for matrix in (
            entry.stack(lambda scores: scores.one_step),
            entry.stack(lambda scores: scores.h_step),
        ):
            learnt = np.diagonal(matrix, axis1=1, axis2=2)
            cells += [_error_cell(learnt), _error_cell(matrix[:, :, -1])]
        if any(cell.text != UNDEFINED for cell in cells):
            rows.append((entry.label, tuple(cells)))
    return Table(
        "model-error",
        "Model error, average over tasks",
        "Relative to the spread of a task's state changes: 0 is exact, 1 as bad as predicting "
        "that nothing moves. One step ahead, and over the planning horizon.",
        "Method",
        ("One step, learnt", "One step, end", "Horizon, learnt", "Horizon, end"),
        tuple(rows),
        sources(comparison.entries),
    )


def _error_cell(errors: Float[np.ndarray, "K T"]) -> Cell:
    return number_cell(np.array([metrics.mean_of_defined(e) for e in errors]))
