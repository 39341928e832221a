"""The tables of a comparison: each function turns one into a `Table`, or None without content.

Over seeds a cell gives mean ± sample standard deviation, as the paper does; the interquartile
mean with its 95 % interval stands in a column of its own. Under a ratio stands the paper's
number where it has one, and the returns themselves where the ratio is undefined.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics, paper, statistics
from hypercrl.analysis.comparison import Comparison, Entry, Scores, flatten, mean_over_seeds
from hypercrl.analysis.formatting import (
    UNDEFINED,
    count,
    duration,
    number,
    percent,
    percent_spread,
    seeds,
    size,
    spread,
)
from hypercrl.analysis.table_formats import Cell, Table

Ratios = Callable[[Scores], Sequence[metrics.Ratio]]


def build_tables(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has content for."""
    builders = (
        retention_table,
        forward_transfer_table,
        metrics_table,
        returns_table,
        success_table,
        improvement_table,
        model_error_table,
        cost_table,
        matrix_table,
        runs_table,
    )
    tables = (build(comparison) for build in builders)
    return [table for table in tables if table is not None and table.rows]


def retention_table(comparison: Comparison) -> Table | None:
    return _ratio_table(
        comparison,
        "retention",
        "Retention of old tasks, %",
        "The return on a task after all training over the return when it had just been learnt. "
        "100 is nothing forgotten; above, later tasks have helped.",
        lambda scores: scores.retention,
        first_task=1,
        published=paper.RETENTION,
    )


def forward_transfer_table(comparison: Comparison) -> Table | None:
    if np.isnan(comparison.reference).all():
        return None
    return _ratio_table(
        comparison,
        "forward-transfer",
        "Forward transfer to new tasks, %",
        "The return on a task when just learnt over that of a model trained on this task alone, "
        "from scratch. Above 100, what was learnt before has helped.",
        lambda scores: scores.forward_transfer,
        first_task=2,
        published=paper.FORWARD_TRANSFER,
    )


def _ratio_table(
    comparison: Comparison,
    name: str,
    title: str,
    reading: str,
    read: Ratios,
    *,
    first_task: int,
    published: dict[str, dict[str, paper.Row]],
) -> Table | None:
    entries = [entry for entry in comparison.entries if not entry.is_reference]
    num_tasks = len(comparison.tasks) - 1
    if num_tasks < 1:
        return None
    rows = published.get(comparison.suite, {})
    cells = [_ratio_cells(entry, read, rows.get(entry.method)) for entry in entries]
    columns = [f"Task {first_task + k}" for k in range(num_tasks)]
    return Table(
        name,
        title,
        reading,
        "Method",
        (*columns, "Average", "IQM [95 %]"),
        _with_best(entries, cells),
        _sources(entries),
    )


def _ratio_cells(entry: Entry, read: Ratios, published: paper.Row | None) -> list[Cell]:
    per_seed = [read(scores) for scores in entry.scores]
    found = np.stack([metrics.values(ratios) for ratios in per_seed])
    known = published.tasks if published and len(published.tasks) == found.shape[1] else ()
    cells = []
    for task in range(found.shape[1]):
        column = [ratios[task] for ratios in per_seed]
        cells.append(_ratio_cell(column, known[task] if known else None))
    average = np.array([metrics.mean_of_defined(row) for row in found])
    cells.append(_percent_cell(average, published.average if published and known else None))
    estimate = statistics.estimate_iqm(list(found.T))
    low, high = estimate.interval or (math.nan, math.nan)
    text = percent(estimate.value)
    if estimate.interval:
        text += f" [{percent(low)}, {percent(high)}]"
    cells.append(Cell(text, numbers={"": estimate.value, "low": low, "high": high}))
    return cells


def _ratio_cell(ratios: Sequence[metrics.Ratio], published: paper.Number | None) -> Cell:
    """Mean ± std over seeds; what could not be divided is shown as its two returns."""
    cell = _percent_cell(metrics.values(ratios), published)
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


def _percent_cell(found: Float[np.ndarray, "K"], published: paper.Number | None) -> Cell:
    mean, deviation = statistics.mean_std(found)
    numbers: dict[str, float | None] = {"mean": mean, "std": deviation}
    note = ""
    if published:
        note = f"paper {published[0]:.0f} ± {published[1]:.0f}".replace("-", "−")
        numbers |= {"paper mean": published[0] / 100, "paper std": published[1] / 100}
    return Cell(percent_spread(mean, deviation), note, numbers)


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
        row = [_number_cell(entry.stack(read)) for _, read in plain]
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
        _sources(comparison.entries),
    )


def _average_ratio_cell(per_seed: Sequence[Sequence[metrics.Ratio]]) -> Cell:
    found = np.array([metrics.mean_of_defined(metrics.values(ratios)) for ratios in per_seed])
    cell = _percent_cell(found, None)
    if cell.text != UNDEFINED:
        return cell
    raw = np.array([ratio.numerator for ratios in per_seed for ratio in ratios])
    return Cell(cell.text, f"return {number(metrics.mean_of_defined(raw))}", cell.numbers)


def returns_table(comparison: Comparison) -> Table | None:
    """The returns behind the ratios: at the end, and when just learnt."""
    rows = []
    for entry in comparison.entries:
        returns = entry.stack(lambda scores: scores.returns)
        cells = []
        for task in range(len(comparison.tasks)):
            end, learnt = _number_cell(returns[:, task, -1]), _number_cell(returns[:, task, task])
            numbers = {f"end {k}": v for k, v in end.numbers.items()}
            numbers |= {f"learnt {k}": v for k, v in learnt.numbers.items()}
            cells.append(Cell(end.text, f"learnt {learnt.text}", numbers))
        cells.append(_number_cell(entry.stack(lambda scores: scores.average_performance)))
        rows.append((entry.label, tuple(cells)))
    columns = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    return Table(
        "returns",
        "Returns at the end",
        "Mean test return on every task after all training, and below it when the task had just "
        "been learnt.",
        "Method",
        (*columns, "Average"),
        tuple(rows),
        _sources(comparison.entries),
    )


def success_table(comparison: Comparison) -> Table | None:
    rows = []
    for entry in comparison.entries:
        shares = entry.stack(lambda scores: scores.successes)
        if np.isnan(shares).all():
            continue
        cells = [_percent_cell(shares[:, task, -1], None) for task in range(shares.shape[1])]
        average = np.array([metrics.mean_of_defined(s[:, -1]) for s in shares])
        rows.append((entry.label, (*cells, _percent_cell(average, None))))
    columns = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    return Table(
        "success",
        "Success at the end, % of test episodes",
        "How often the suite's own criterion of success was met after all training.",
        "Method",
        (*columns, "Average"),
        tuple(rows),
        _sources(comparison.entries),
    )


def improvement_table(comparison: Comparison) -> Table | None:
    """Probability that a run of the row's method ends with a higher return than the column's."""
    entries = comparison.entries
    if len(entries) < 2:
        return None
    strata = [list(entry.stack(lambda s: s.returns[:, -1]).T) for entry in entries]
    rows = []
    for a, entry in enumerate(entries):
        cells = [
            Cell("") if a == b else _improvement_cell(strata[a], strata[b])
            for b in range(len(entries))
        ]
        rows.append((entry.label, tuple(cells)))
    return Table(
        "improvement",
        "Probability of improvement, %",
        "How probable it is that a run of the row's method ends with a higher return on a task "
        "than a run of the column's. 50 is no difference; below stands the 95 % interval.",
        "Row beats column",
        tuple(entry.label for entry in entries),
        tuple(rows),
        _sources(entries),
    )


def _improvement_cell(ours: statistics.Strata, theirs: statistics.Strata) -> Cell:
    estimate = statistics.estimate_improvement(ours, theirs)
    low, high = estimate.interval or (math.nan, math.nan)
    note = f"{percent(low)} to {percent(high)}" if estimate.interval else ""
    return Cell(percent(estimate.value), note, {"": estimate.value, "low": low, "high": high})


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
        _sources(comparison.entries),
    )


def _error_cell(errors: Float[np.ndarray, "K T"]) -> Cell:
    mean, deviation = statistics.mean_std(np.array([metrics.mean_of_defined(e) for e in errors]))
    return Cell(spread(mean, deviation), numbers={"mean": mean, "std": deviation})


def cost_table(comparison: Comparison) -> Table | None:
    rows = [(entry.label, _cost_cells(entry)) for entry in comparison.entries]
    return Table(
        "cost",
        "Cost",
        "Trainable parameters and bytes kept for finished tasks (state and old transitions) at "
        "the end, model evaluations behind one action, the median seconds of an update session "
        "in the first and the last task, and the wall-clock time of a whole run.",
        "Method",
        (
            "Parameters",
            "Kept for old tasks",
            "of it transitions",
            "Evaluations per action",
            "Session, first task",
            "Session, last task",
            "Run",
        ),
        tuple(rows),
        _sources(comparison.entries),
    )


def _cost_cells(entry: Entry) -> tuple[Cell, ...]:
    last = [run.costs[-1] for run in entry.runs if run.costs]
    kept = entry.stack(lambda scores: scores.bytes_kept)
    seconds = mean_over_seeds(entry.stack(lambda scores: scores.seconds_per_session))
    reached = [row[~np.isnan(row)][-1] for row in kept if not np.isnan(row).all()]
    whole = [sum(t.seconds for t in run.task_times) for run in entry.runs if run.complete]
    shown = [
        (_mean([cost.parameters for cost in last]), count),
        (_mean(reached), size),
        (_mean([cost.memory_bytes for cost in last]), size),
        (_mean([cost.evaluations_per_action for cost in last]), count),
        (float(seconds[0]), duration),
        (float(seconds[-1]), duration),
        (_mean([total for total in whole if total > 0]), duration),
    ]
    return tuple(Cell(write(value), numbers={"": value}) for value, write in shown)


def matrix_table(comparison: Comparison) -> Table | None:
    """r[i, j] in full: mean ± std over seeds."""
    rows = []
    for entry in comparison.entries:
        returns = entry.stack(lambda scores: scores.returns)
        for i in range(len(comparison.tasks)):
            cells = [
                Cell("") if j < i else _number_cell(returns[:, i, j])
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
        _sources(comparison.entries),
    )


def runs_table(comparison: Comparison) -> Table | None:
    """Which runs stand behind the numbers and how far each has come."""
    rows = []
    for entry in comparison.entries:
        finished = sum(run.complete for run in entry.runs)
        reached = [len({e.after for e in r.evaluations if e.phase == "final"}) for r in entry.runs]
        open_runs = [
            f"seed {run.seed}: {tasks} of {run.num_tasks} tasks"
            for run, tasks in zip(entry.runs, reached, strict=True)
            if not run.complete
        ]
        first = entry.runs[0].config
        cells = (
            Cell(", ".join(map(str, entry.seeds))),
            Cell(f"{finished} of {len(entry.runs)}", "; ".join(open_runs)),
            Cell(str(first.get("planner", UNDEFINED))),
            Cell(_settings(first.get("learner", {})), is_prose=True),
        )
        rows.append((entry.label, cells))
    return Table(
        "runs",
        "Runs",
        "The runs behind every number of this suite; an unfinished one counts as far as it came.",
        "Method",
        ("Seeds", "Finished", "Planner", "Settings"),
        tuple(rows),
        _sources(comparison.entries),
    )


def _settings(learner: Mapping[str, Any]) -> str:
    names = ((key.replace(".", " ").replace("_", " "), v) for key, v in flatten(learner))
    return ", ".join(f"{name} {value}" for name, value in names)


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


def _number_cell(found: Float[np.ndarray, "K"]) -> Cell:
    mean, deviation = statistics.mean_std(found)
    return Cell(spread(mean, deviation), numbers={"mean": mean, "std": deviation})


def _mean(found: Sequence[float]) -> float:
    return float(np.mean(found)) if found else math.nan


def _sources(entries: Sequence[Entry]) -> str:
    """Entries by their seeds, those with the same seeds together."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for entry in entries:
        groups.setdefault(entry.seeds, []).append(entry.label)
    return "; ".join(f"{', '.join(labels)} ({seeds(key)})" for key, labels in groups.items()) + "."
