"""What else is measured of continual learning, beside retention and forward transfer."""

from collections.abc import Callable, Sequence

import numpy as np

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison, Scores
from hypercrl.analysis.formatting import UNDEFINED, number
from hypercrl.analysis.ratios import Ratios
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import number_cell, percent_cell, sources


def metrics_table(comparison: Comparison) -> Table | None:
    """The other metrics of continual learning, averaged over tasks, one row a method."""
    if len(comparison.tasks) < 2:
        return None
    plain: list[tuple[str, Callable[[Scores], float]]] = [
        ("Return at the end", lambda s: s.average_performance),
        ("Forgetting", lambda s: metrics.mean_of_defined(s.forgetting)),
        ("Backward transfer", lambda s: metrics.mean_of_defined(s.backward_transfer)),
        ("Zero-shot return", lambda s: metrics.mean_of_defined(s.zero_shot)),
    ]
    ratios: list[tuple[str, Ratios]] = [
        ("Worst case, %", lambda s: s.worst_case),
        ("Learning area, %", lambda s: s.learning_area),
    ]
    cells = []
    for entry in comparison.entries:
        row = [number_cell(entry.stack(read)) for _, read in plain]
        for _, read in ratios:
            row.append(_average_ratio_cell([read(scores) for scores in entry.scores]))
        cells.append(row)
    return Table(
        "metrics",
        "Continual-learning metrics, averages over tasks",
        "Forgetting is the best earlier return minus the last (lower is better), backward "
        "transfer the last minus that when learnt, zero-shot the return before any training on "
        "a task, worst case the lowest later return over that when learnt (the stability gap), "
        "learning area the mean height of the learning curve over the single-task return.",
        "Method",
        tuple(name for name, _ in [*plain, *ratios]),
        tuple((e.label, tuple(row)) for e, row in zip(comparison.entries, cells, strict=True)),
        sources(comparison.entries),
    )


def _average_ratio_cell(per_seed: Sequence[Sequence[metrics.Ratio]]) -> Cell:
    found = np.array([metrics.mean_of_defined(metrics.values(ratios)) for ratios in per_seed])
    cell = percent_cell(found, None)
    if cell.text != UNDEFINED:
        return cell
    raw = np.array([ratio.numerator for ratios in per_seed for ratio in ratios])
    return Cell(cell.text, f"return {number(metrics.mean_of_defined(raw))}", cell.numbers)
