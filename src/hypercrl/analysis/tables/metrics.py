"""What else is measured of continual learning, and how well the models predict."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.formatting import UNDEFINED
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import number_cell, percent_cell, sources

Read = Callable[[metrics.Scores], Float[np.ndarray, "K"]]


def metrics_table(comparison: Comparison) -> Table | None:
    """The other metrics of continual learning, averaged over tasks, one row a method."""
    if len(comparison.tasks) < 2:
        return None
    columns: dict[str, tuple[Callable[[np.ndarray], Cell], Read]] = {
        "Curve transfer, %": (percent_cell, lambda s: s.curve_transfer),
        "Worst case, %": (percent_cell, lambda s: metrics.values(s.worst_case)),
        "Forgetting": (number_cell, lambda s: metrics.forgetting(s.returns)),
        "Zero-shot return": (number_cell, lambda s: s.zero_shot),
    }
    rows = []
    for entry in comparison.entries:
        cells = [
            write(np.array([metrics.mean_of_defined(read(scores)) for scores in entry.scores]))
            for write, read in columns.values()
        ]
        rows.append((entry.label, (Cell(entry.learnt), *cells)))
    return Table(
        "metrics",
        "Continual-learning metrics, averages over tasks",
        "Curve transfer is Continual World's forward transfer: the area between the normalised "
        "learning curve and the single-task model's, over the area above the latter; it needs "
        "the curves of both. Worst case is the lowest later gain over that when learnt (the "
        "stability gap). In units of return: forgetting is the best earlier return minus the last "
        "(lower is better), zero-shot the return before any training on a task."
        + _holes(comparison),
        "Method",
        ("Tasks learnt", *columns),
        tuple(rows),
        sources(comparison.entries),
    )


def _holes(comparison: Comparison) -> str:
    if not any(metrics.has_holes(s.returns) for entry in comparison.entries for s in entry.scores):
        return ""
    return (
        " Older tasks were not tested after every task: the worst case and forgetting are of what "
        "was measured."
    )


def model_error_table(comparison: Comparison) -> Table | None:
    """Model error, averaged over tasks: when each was learnt, and at the end."""
    rows = []
    for entry in comparison.entries:
        cells = []
        for matrix in (entry.stack(lambda s: s.one_step), entry.stack(lambda s: s.h_step)):
            learnt = np.diagonal(matrix, axis1=1, axis2=2)
            cells += [_error_cell(learnt), _error_cell(matrix[:, :, -1])]
        if any(cell.text != UNDEFINED for cell in cells):
            probe = "common" if entry.has_common_probe else "own: not comparable"
            rows.append((entry.label, (*cells, Cell(probe))))
    return Table(
        "model-error",
        "Model error, average over tasks",
        "Relative to the spread of a task's state changes: 0 is exact, 1 as bad as predicting "
        "that nothing moves. One step ahead, and over the planning horizon, on transitions that "
        "depend on suite and task alone, the same for every method. Runs of version 0.1.0 were "
        "measured on test episodes of their own; their errors compare with nobody's.",
        "Method",
        ("One step, learnt", "One step, end", "Horizon, learnt", "Horizon, end", "Transitions"),
        tuple(rows),
        sources(comparison.entries),
    )


def _error_cell(errors: Float[np.ndarray, "K T"]) -> Cell:
    return number_cell(np.array([metrics.mean_of_defined(e) for e in errors]))
