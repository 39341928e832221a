"""Retention and forward transfer, with the paper's numbers below."""

import math
from collections.abc import Sequence

import numpy as np

from hypercrl.analysis import metrics, paper, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import number, percent
from hypercrl.analysis.ratios import FORWARD_TRANSFER, RETENTION, RatioMetric
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import percent_cell, sources


def retention_table(comparison: Comparison) -> Table | None:
    return _ratio_table(
        comparison,
        RETENTION,
        "Retention of old tasks, %",
        "The return on a task after all training over the return when it had just been learnt. "
        "100 is nothing forgotten; above, later tasks have helped.",
    )


def forward_transfer_table(comparison: Comparison) -> Table | None:
    if np.isnan(comparison.reference).all():
        return None
    return _ratio_table(
        comparison,
        FORWARD_TRANSFER,
        "Forward transfer to new tasks, %",
        "The return on a task when just learnt over that of a model trained on this task alone, "
        "from scratch. Above 100, what was learnt before has helped.",
    )


def _ratio_table(
    comparison: Comparison, metric: RatioMetric, title: str, reading: str
) -> Table | None:
    entries = [entry for entry in comparison.entries if not entry.is_reference]
    num_tasks = len(comparison.tasks) - 1
    if num_tasks < 1:
        return None
    rows = metric.published.get(comparison.suite, {})
    cells = [_ratio_cells(entry, metric, rows.get(entry.method)) for entry in entries]
    columns = [f"Task {metric.first_task + k}" for k in range(num_tasks)]
    return Table(
        metric.name,
        title,
        reading,
        "Method",
        (*columns, "Average", "IQM [95 %]"),
        _with_best(entries, cells),
        sources(entries),
    )


def _ratio_cells(entry: Entry, metric: RatioMetric, published: paper.Row | None) -> list[Cell]:
    per_seed = [metric.read(scores) for scores in entry.scores]
    found = np.stack([metrics.values(ratios) for ratios in per_seed])
    known = published.tasks if published and len(published.tasks) == found.shape[1] else ()
    cells = []
    for task in range(found.shape[1]):
        column = [ratios[task] for ratios in per_seed]
        cells.append(_ratio_cell(column, known[task] if known else None))
    average = np.array([metrics.mean_of_defined(row) for row in found])
    cells.append(percent_cell(average, published.average if published and known else None))
    estimate = statistics.estimate_iqm(list(found.T))
    low, high = estimate.interval or (math.nan, math.nan)
    text = percent(estimate.value)
    if estimate.interval:
        text += f" [{percent(low)}, {percent(high)}]"
    cells.append(Cell(text, numbers={"": estimate.value, "low": low, "high": high}))
    return cells


def _ratio_cell(ratios: Sequence[metrics.Ratio], published: paper.Number | None) -> Cell:
    """Mean ± std over seeds; what could not be divided is shown as its two returns."""
    cell = percent_cell(metrics.values(ratios), published)
    undefined = [ratio for ratio in ratios if ratio.value is None]
    if not undefined:
        return cell
    top = metrics.mean_of_defined(np.array([ratio.numerator for ratio in undefined]))
    bottom = metrics.mean_of_defined(np.array([ratio.denominator for ratio in undefined]))
    raw = f"{number(top)} / {number(bottom)}"
    if len(undefined) < len(ratios):
        raw = f"{len(undefined)} undefined: {raw}"
    note = "; ".join(part for part in (raw, cell.note) if part)
    return Cell(cell.text, note, {**cell.numbers, "undefined": len(undefined)})


def _with_best(
    entries: Sequence[Entry], cells: Sequence[Sequence[Cell]]
) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Rows in which the highest mean of every column is marked, if there is a competition."""
    marked = [list(row) for row in cells]
    for column in range(len(cells[0]) if cells else 0):
        means = [row[column].numbers.get("mean") for row in cells]
        shown = [mean for mean in means if mean is not None and math.isfinite(mean)]
        for row, mean in zip(marked, means, strict=True):
            if len(shown) > 1 and mean == max(shown):
                cell = row[column]
                row[column] = Cell(cell.text, cell.note, cell.numbers, best=True)
    return tuple((entry.label, tuple(row)) for entry, row in zip(entries, marked, strict=True))
