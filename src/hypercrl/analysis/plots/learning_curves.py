"""Returns while the tasks are trained in turn."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import count, number
from hypercrl.analysis.palette import MUTED
from hypercrl.analysis.plots.shared import (
    MANY_TASKS,
    Colours,
    Curve,
    figure_name,
    legend,
    plot_band,
    share_limits,
)
from hypercrl.experiment.run_folder import Run

SOME_TASKS = 5  # that stand for many


def plot_learning_curves(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Like the paper's figure: one panel a task over the whole run, then the average."""
    num_tasks = len(comparison.tasks)
    curves = {entry.label: _curves(entry, num_tasks) for entry in comparison.entries}
    if not any(curve for entry_curves in curves.values() for curve in entry_curves):
        return None
    shown = [*_shown_tasks(num_tasks), num_tasks]
    figure, panels = panel_grid(len(shown), legend(comparison.entries, colours))
    titles = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    titles += ["Average over tasks seen"]
    switches = _task_switches(comparison.runs) if num_tasks <= MANY_TASKS else []
    for index, axes in zip(shown, panels, strict=True):
        axes.set_title(titles[index])
        for switch in switches:
            axes.axvline(switch, color=MUTED.light, linewidth=0.7, linestyle=(0, (1, 2)))
        for label, entry_curves in curves.items():
            plot_band(axes, entry_curves[index], colours[label])
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: count(step)))
        axes.set_xlabel("control steps")
        axes.set_xlim(left=0)
    share_limits(panels)
    finals = [f"{entry.label} {number(entry.final_return)}" for entry in comparison.entries]
    return Drawing(
        figure_name(comparison, "learning-curves"),
        "Learning curves",
        "Test return on one task while all are trained in turn; dotted lines are task switches. "
        "A curve that stays up after its task is not forgotten. Lines are means over seeds, "
        "bands one standard deviation; where a run was not tested while it learnt a task, the "
        "episodes it learnt from are drawn.",
        f"Learning curves on {comparison.title}. Average return at the end: {', '.join(finals)}.",
        figure,
        panels,
    )


def _shown_tasks(num_tasks: int) -> list[int]:
    """All tasks, or a few from the first to the last."""
    if num_tasks <= MANY_TASKS:
        return list(range(num_tasks))
    return np.linspace(0, num_tasks - 1, SOME_TASKS).round().astype(int).tolist()


def _curves(entry: Entry, num_tasks: int) -> list[Curve]:
    """A curve a task, then that of the average over the tasks seen so far."""
    curves: list[Curve] = [{} for _ in range(num_tasks + 1)]
    for run in entry.runs:
        for task in range(num_tasks):
            for step, value in _task_curve(run, task).items():
                curves[task].setdefault(step, []).append(value)
        for step, value in _average_curve(run).items():
            curves[num_tasks].setdefault(step, []).append(value)
    return curves


def _task_curve(run: Run, task: int) -> dict[int, float]:
    """Tests on one task; the episodes that it was learnt from, where none ran meanwhile."""
    tests = [e for e in run.evaluations if e.task == task]
    points = {e.total_step: e.mean for e in tests}
    if not any(e.phase == "training" and e.after == task for e in tests):
        learning = [e for e in run.episodes if e.task == task and not e.random]
        points = {e.total_step: e.total for e in learning} | points
    return points


def _average_curve(run: Run) -> dict[int, float]:
    """The mean over the tasks seen, wherever all of them were tested at once."""
    together: dict[tuple[int, int], list[float]] = {}
    for e in run.evaluations:
        if e.phase != "zero_shot":
            together.setdefault((e.total_step, e.after), []).append(e.mean)
    return {
        step: float(np.mean(means))
        for (step, after), means in together.items()
        if len(means) == after + 1
    }


def _task_switches(runs: Sequence[Run]) -> list[int]:
    """Total steps at which one task gave way to the next."""
    ends: dict[int, int] = {}
    for run in runs:
        for evaluation in run.evaluations:
            if evaluation.phase == "final" and evaluation.after < run.num_tasks - 1:
                ends[evaluation.after] = max(ends.get(evaluation.after, 0), evaluation.total_step)
    return sorted(ends.values())
