"""What a method can do on every task, as returns and as successes."""

import numpy as np

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import number_cell, percent_cell, sources


def returns_table(comparison: Comparison) -> Table | None:
    """The returns behind the ratios: at the end, and when just learnt."""
    rows = []
    for entry in comparison.entries:
        returns = entry.stack(lambda scores: scores.returns)
        cells = []
        for task in range(len(comparison.tasks)):
            end, learnt = number_cell(returns[:, task, -1]), number_cell(returns[:, task, task])
            numbers = {f"end {k}": v for k, v in end.numbers.items()}
            numbers |= {f"learnt {k}": v for k, v in learnt.numbers.items()}
            cells.append(Cell(end.text, f"learnt {learnt.text}", numbers))
        cells.append(number_cell(entry.stack(lambda scores: scores.average_performance)))
        rows.append((entry.label, tuple(cells)))
    if not np.isnan(random := comparison.entries[0].yardstick.random).all():
        cells = [number_cell(np.array([value])) for value in (*random, random.mean())]
        rows.append(("Random actions", tuple(cells)))
    columns = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    return Table(
        "returns",
        "Returns at the end",
        "Mean test return on every task after all training, and below it when the task had just "
        "been learnt; last what random actions earn.",
        "Method",
        (*columns, "Average"),
        tuple(rows),
        sources(comparison.entries),
    )


def success_table(comparison: Comparison) -> Table | None:
    rows = []
    for entry in comparison.entries:
        shares = entry.stack(lambda scores: scores.successes)
        if np.isnan(shares).all():
            continue
        cells = [percent_cell(shares[:, task, -1]) for task in range(shares.shape[1])]
        average = np.array([metrics.mean_of_defined(s[:, -1]) for s in shares])
        rows.append((entry.label, (*cells, percent_cell(average))))
    columns = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    return Table(
        "success",
        "Success at the end, % of test episodes",
        "How often the suite's own criterion of success was met after all training.",
        "Method",
        (*columns, "Average"),
        tuple(rows),
        sources(comparison.entries),
    )


def matrix_table(comparison: Comparison) -> Table:
    """r[i, j] in full: mean ± std over seeds."""
    tasks = range(len(comparison.tasks))
    rows = []
    for entry in comparison.entries:
        returns = entry.stack(lambda scores: scores.returns)
        for i in tasks:
            cells = [Cell("") if j < i else number_cell(returns[:, i, j]) for j in tasks]
            rows.append((f"{entry.label}, task {i + 1}", tuple(cells)))
    return Table(
        "matrix",
        "All returns r[i, j]",
        "Mean test return on the row's task after training the column's.",
        "Method, task",
        tuple(f"After task {j + 1}" for j in tasks),
        tuple(rows),
        sources(comparison.entries),
    )
