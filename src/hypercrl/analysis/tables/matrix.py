"""The return on every task after every task, a row a method and task."""

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import number_cell, sources


def matrix_table(comparison: Comparison) -> Table | None:
    """r[i, j] in full: mean ± std over seeds."""
    rows = []
    for entry in comparison.entries:
        returns = entry.stack(lambda scores: scores.returns)
        for i in range(len(comparison.tasks)):
            cells = [
                Cell("") if j < i else number_cell(returns[:, i, j])
                for j in range(len(comparison.tasks))
            ]
            rows.append((f"{entry.label}, task {i + 1}", tuple(cells)))
    return Table(
        "matrix",
        "All returns r[i, j]",
        "Mean test return on the row's task after training the column's.",
        "Method, task",
        tuple(f"After task {j + 1}" for j in range(len(comparison.tasks))),
        tuple(rows),
        sources(comparison.entries),
    )
