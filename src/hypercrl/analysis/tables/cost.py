"""What a method costs in parameters, memory and time."""

import math
from collections.abc import Sequence

import numpy as np

from hypercrl.analysis.comparison import Comparison, Entry, mean_over_seeds
from hypercrl.analysis.formatting import count, duration, size
from hypercrl.analysis.metrics import bytes_kept
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import sources


def cost_table(comparison: Comparison) -> Table:
    rows = [(entry.label, _cost_cells(entry)) for entry in comparison.entries]
    return Table(
        "cost",
        "Cost",
        "Trainable parameters; bytes that stay for one finished task, bytes kept for all of them "
        "at the end (old transitions included), and the most that is held at once while learning: "
        "the whole state and all transitions. Model evaluations behind one action, the median "
        "time of an update session in the last task and below it in the first, and the wall-clock "
        "time of a whole run.",
        "Method",
        (
            "Parameters",
            "Kept per finished task",
            "Kept in all",
            "Peak while learning",
            "Evaluations per action",
            "Update session",
            "Run",
        ),
        tuple(rows),
        sources(comparison.entries),
    )


def _cost_cells(entry: Entry) -> tuple[Cell, ...]:
    last = [run.costs[-1] for run in entry.runs if run.costs]
    peaks = entry.stack(lambda scores: scores.peak_bytes)
    sessions = mean_over_seeds(entry.stack(lambda scores: scores.seconds_per_session))
    start, end = float(sessions[0]), float(sessions[-1])
    whole = [sum(t.seconds for t in run.task_times) for run in entry.runs if run.complete]
    shown = [
        (_mean([cost.parameters for cost in last]), count),
        (_mean([bytes_kept(cost) / (cost.task + 1) for cost in last]), size),
        (_mean([bytes_kept(cost) for cost in last]), size),
        (_mean([np.nanmax(row) for row in peaks if not np.isnan(row).all()]), size),
        (_mean([cost.evaluations_per_action for cost in last]), count),
    ]
    total = _mean([seconds for seconds in whole if seconds > 0])
    return (
        *(Cell(write(value), numbers={"": value}) for value, write in shown),
        Cell(duration(end), f"first task {duration(start)}", {"first": start, "last": end}),
        Cell(duration(total), numbers={"": total}),
    )


def _mean(found: Sequence[float]) -> float:
    return float(np.mean(found)) if found else math.nan
