"""Normalised return, retention and forward transfer, task by task; the paper's numbers below."""

from collections.abc import Sequence

import numpy as np

from hypercrl.analysis import metrics, paper, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import UNDEFINED, number, percent_spread
from hypercrl.analysis.ratios import NORMALISED, RATIOS, RETENTION, RatioMetric, Ratios
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import estimate_cell, mark_best, percent_cell, sources


def ratio_table(comparison: Comparison, metric: RatioMetric) -> Table | None:
    """Per task, then over tasks; the number of tasks learnt stands beside every average."""
    entries = comparison.competitors
    is_unknown = metric is NORMALISED and all(np.isnan(entry.normalised) for entry in entries)
    if is_unknown or not _has_content(comparison, metric.read):
        return None
    rows = metric.published.get(comparison.suite, {})
    cells = []
    for entry in entries:
        found = _stack(entry, metric.read)
        row = [Cell(entry.learnt), *_task_cells(entry, metric.read)]
        row += [_average_cell(found), estimate_cell(statistics.estimate_iqm(list(found.T)))]
        if metric.plain:
            published = _row_for(rows.get(entry.method), found.shape[1])
            row.append(_average_cell(_stack(entry, metric.plain), published))
        cells.append(row)
    last = ("Average", "IQM [95 %]") + (("Plain ratio",) if metric.plain else ())
    return Table(
        metric.name,
        f"{metric.title}, %",
        metric.brief,
        "Method",
        ("Tasks learnt", *_columns(comparison, metric), *last),
        # Who has learnt little can keep all of it: nobody wins a table of retention.
        mark_best(entries, cells)
        if metric is not RETENTION
        else tuple((e.label, tuple(row)) for e, row in zip(entries, cells, strict=True)),
        sources(entries),
    )


def plain_table(comparison: Comparison, metric: RatioMetric) -> Table | None:
    """The paper's own definition, with its numbers where it has the same cell."""
    if metric.plain is None or not _has_content(comparison, metric.plain):
        return None
    rows = []
    for entry in comparison.competitors:
        known = metric.published.get(comparison.suite, {}).get(entry.method)
        found = _stack(entry, metric.plain)
        published = _row_for(known, found.shape[1])
        cells = _task_cells(entry, metric.plain, published)
        rows.append((entry.label, (*cells, _average_cell(found, published))))
    return Table(
        f"{metric.name}-plain",
        f"{metric.title}, plain ratio {metric.formula}, %",
        "As the paper defines it: returns counted from 0, whatever random actions earn. Below "
        "stand the paper's numbers (its own simulation and full budget).",
        "Method",
        (*_columns(comparison, metric), "Average"),
        tuple(rows),
        sources(comparison.competitors),
    )


def paper_table(comparison: Comparison) -> Table | None:
    """Averages by the paper's own definition, and the paper's, where it has the same tasks."""
    cells: dict[str, list[Cell]] = {entry.label: [] for entry in comparison.competitors}
    columns = []
    for metric in RATIOS:
        rows = metric.published.get(comparison.suite, {})
        if metric.plain is None or not rows:
            continue
        columns += [f"{metric.title}, %", "the paper's"]
        for entry in comparison.competitors:
            found = _stack(entry, metric.plain)
            published = _row_for(rows.get(entry.method), found.shape[1])
            theirs = percent_spread(*(v / 100 for v in published.average)) if published else ""
            cells[entry.label] += [_average_cell(found), Cell(theirs or UNDEFINED)]
    if not any(cell.text != UNDEFINED for row in cells.values() for cell in row[1::2]):
        return None
    return Table(
        "paper",
        "Beside the paper",
        "Averages over tasks of plain ratios, as the paper defines them, beside its own (its "
        "simulation and full budget, four seeds).",
        "Method",
        tuple(columns),
        tuple((label, tuple(row)) for label, row in cells.items()),
        sources(comparison.competitors),
    )


def _has_content(comparison: Comparison, read: Ratios) -> bool:
    """Whether any run has two returns to divide."""
    ratios = [r for e in comparison.competitors for scores in e.scores for r in read(scores)]
    return any(np.isfinite([r.numerator, r.denominator]).all() for r in ratios)


def _columns(comparison: Comparison, metric: RatioMetric) -> list[str]:
    last = len(comparison.tasks) + (metric is not RETENTION)
    return [f"Task {k}" for k in range(metric.first_task, last)]


def _stack(entry: Entry, read: Ratios) -> np.ndarray:
    return entry.stack(lambda scores: metrics.values(read(scores)))


def _row_for(row: paper.Row | None, num_tasks: int) -> paper.Row | None:
    return row if row and len(row.tasks) == num_tasks else None


def _average_cell(found: np.ndarray, published: paper.Row | None = None) -> Cell:
    average = np.array([metrics.mean_of_defined(row) for row in found])
    return percent_cell(average, published.average if published else None)


def _task_cells(entry: Entry, read: Ratios, published: paper.Row | None = None) -> list[Cell]:
    per_task = zip(*(read(scores) for scores in entry.scores), strict=True)
    return [
        _ratio_cell(column, published.tasks[task] if published else None)
        for task, column in enumerate(per_task)
    ]


def _ratio_cell(ratios: Sequence[metrics.Ratio], published: paper.Number | None) -> Cell:
    """Mean ± std over seeds; what could not be divided is shown as its two returns."""
    cell = percent_cell(metrics.values(ratios), published)
    undefined = [ratio for ratio in ratios if ratio.value is None]
    if not undefined:
        return cell
    top = metrics.mean_of_defined(np.array([ratio.numerator for ratio in undefined]))
    bottom = metrics.mean_of_defined(np.array([ratio.denominator for ratio in undefined]))
    raw, reason = f"{number(top)} / {number(bottom)}", undefined[0].reason
    if len(undefined) < len(ratios):
        reason = f"{len(undefined)} {reason or 'undefined'}"
    raw = f"{reason}: {raw}" if reason else raw
    note = "; ".join(part for part in (raw, cell.note) if part)
    return Cell(cell.text, note, {**cell.numbers, "undefined": len(undefined)})
