"""The figures of a comparison: each function draws one, or returns None without content."""

import math
from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hypercrl.analysis import metrics, paper, statistics
from hypercrl.analysis.comparison import Comparison, Entry, Scores, mean_over_seeds
from hypercrl.analysis.drawing import STYLE, Drawing, mark_series, panel_grid
from hypercrl.analysis.formatting import count, duration, number, percent, size
from hypercrl.analysis.palette import INK, MUTED, PAGE, SERIES
from hypercrl.analysis.records import Run

Colours = dict[str, int]  # an entry's label: its index into the palette

# Brown, cream, green: lost, so-so, kept. Safe for red-green deficiency and on either theme.
_HEAT = LinearSegmentedColormap.from_list(
    "kept", ["#8c5a2b", "#d9b98a", "#f1ecdf", "#7dbfae", "#14705f"]
)
_DARK_TEXT, _LIGHT_TEXT = "#14181f", "#fbfbfa"  # on heat-map cells, whatever the theme
_MAX_EMBEDDING_PANELS = 6


def build_drawings(comparison: Comparison, colours: Colours) -> list[Drawing]:
    """Every figure that the comparison has content for."""
    plots = (
        plot_learning_curves,
        plot_retention,
        plot_forward_transfer,
        plot_heat_maps,
        plot_model_error,
        plot_cost,
        plot_embeddings,
    )
    with matplotlib.rc_context(STYLE):
        drawings = [plot(comparison, colours) for plot in plots]
    return [drawing for drawing in drawings if drawing is not None]


def plot_learning_curves(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Like the paper's figure: one panel a task over the whole run, then the average."""
    num_tasks = len(comparison.tasks)
    curves = {entry.label: _curves(entry, num_tasks) for entry in comparison.entries}
    if not any(curve for entry_curves in curves.values() for curve in entry_curves):
        return None
    figure, panels = panel_grid(num_tasks + 1, _legend(comparison.entries, colours))
    titles = [f"Task {k + 1}: {name}" for k, name in enumerate(comparison.tasks)]
    switches = _task_switches(comparison.runs)
    for index, (axes, title) in enumerate(
        zip(panels, [*titles, "Average over tasks seen"], strict=True)
    ):
        axes.set_title(title)
        for switch in switches:
            axes.axvline(switch, color=MUTED.light, linewidth=0.7, linestyle=(0, (1, 2)))
        for label, entry_curves in curves.items():
            _plot_band(axes, entry_curves[index], colours[label])
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: count(step)))
        axes.set_xlabel("control steps")
        axes.set_xlim(left=0)
    _share_limits(panels)
    finals = [
        f"{e.label} {number(metrics.mean_of_defined(e.stack(lambda s: s.average_performance)))}"
        for e in comparison.entries
    ]
    return Drawing(
        _name(comparison, "learning-curves"),
        "Learning curves",
        "Test return on one task while all are trained in turn; dotted lines are task switches. "
        "A curve that stays up after its task is not forgotten. Lines are means over seeds, "
        "bands one standard deviation; where a run was not tested while it learnt a task, the "
        "episodes it learnt from are drawn.",
        f"Learning curves on {comparison.title}. Average return at the end: {', '.join(finals)}.",
        figure,
        panels,
    )


def _share_limits(panels: Sequence[Axes]) -> None:
    """One scale for all panels, so that they can be compared at a glance."""
    used = [axes for axes in panels if axes.lines or axes.patches]
    low, high = min(a.get_ylim()[0] for a in used), max(a.get_ylim()[1] for a in used)
    left, right = min(a.get_xlim()[0] for a in used), max(a.get_xlim()[1] for a in used)
    for axes in panels:
        axes.set(xlim=(left, right), ylim=(low, high))


Curve = dict[int, list[float]]  # total step: one value a seed


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


def _plot_band(axes: Axes, curve: Curve, colour: int) -> None:
    """The mean over seeds and one standard deviation; the palette's first lie on top."""
    steps = sorted(curve)
    if not steps:
        return
    mean = np.array([np.mean(curve[step]) for step in steps])
    spread = np.array(
        [np.std(curve[step], ddof=1) if len(curve[step]) > 1 else 0 for step in steps]
    )
    marker = "o" if len(steps) < 8 else None
    (line,) = axes.plot(steps, mean, color=SERIES[colour].light, marker=marker, markersize=3)
    line.set_zorder(3 - colour / len(SERIES))
    mark_series(line, colour)
    if spread.any():
        band = axes.fill_between(
            steps, mean - spread, mean + spread, color=SERIES[colour].light, alpha=0.14, linewidth=0
        )
        mark_series(band, colour)


def _task_switches(runs: Sequence[Run]) -> list[int]:
    """Total steps at which one task gave way to the next."""
    ends: dict[int, int] = {}
    for run in runs:
        for evaluation in run.evaluations:
            if evaluation.phase == "final" and evaluation.after < run.num_tasks - 1:
                ends[evaluation.after] = max(ends.get(evaluation.after, 0), evaluation.total_step)
    return sorted(ends.values())


def plot_retention(comparison: Comparison, colours: Colours) -> Drawing | None:
    return _plot_ratios(
        comparison,
        colours,
        "retention",
        "Retention",
        "What is left at the end of the return that a task had when it was learnt. Bars are "
        "interquartile means over seeds, whiskers 95 % bootstrap intervals, diamonds the paper.",
        lambda scores: scores.retention,
        first_task=1,
        published=paper.RETENTION,
    )


def plot_forward_transfer(comparison: Comparison, colours: Colours) -> Drawing | None:
    return _plot_ratios(
        comparison,
        colours,
        "forward-transfer",
        "Forward transfer",
        "The return on a task when just learnt, against a model that has only ever seen this "
        "task. Bars, whiskers and diamonds as for retention.",
        lambda scores: scores.forward_transfer,
        first_task=2,
        published=paper.FORWARD_TRANSFER,
    )


def _plot_ratios(
    comparison: Comparison,
    colours: Colours,
    name: str,
    title: str,
    reading: str,
    read: Callable[[Scores], Sequence[metrics.Ratio]],
    *,
    first_task: int,
    published: dict[str, dict[str, paper.Row]],
) -> Drawing | None:
    entries = [entry for entry in comparison.entries if not entry.is_reference]
    found = [entry.stack(lambda s: metrics.values(read(s))) for entry in entries]
    if not any(np.isfinite(values).any() for values in found):
        return None
    num_tasks = len(comparison.tasks) - 1
    figure, panels = panel_grid(num_tasks + 1, left=0.95)
    rows = published.get(comparison.suite, {})
    whole = [statistics.estimate_iqm(list(values.T)) for values in found]
    columns = [[statistics.estimate_iqm([v[:, task]]) for v in found] for task in range(num_tasks)]
    for index, (axes, estimates) in enumerate(zip(panels, [whole, *columns], strict=True)):
        axes.set_title("Average" if index == 0 else f"Task {first_task + index - 1}")
        marks = [_paper_mark(rows.get(entry.method), index, num_tasks) for entry in entries]
        _plot_bars(axes, entries, estimates, marks, colours)
    _share_limits(panels)
    shown = [f"{e.label} {percent(s.value)} %" for e, s in zip(entries, whole, strict=True)]
    alt = f"{title} on {comparison.title}, average over tasks: {', '.join(shown)}."
    return Drawing(_name(comparison, name), title, reading, alt, figure, panels)


def _paper_mark(row: paper.Row | None, index: int, num_tasks: int) -> float:
    """The paper's percentage for a panel: the average first, then its tasks."""
    if row is None or len(row.tasks) != num_tasks:
        return math.nan
    return row.average[0] if index == 0 else row.tasks[index - 1][0]


def _plot_bars(
    axes: Axes,
    entries: Sequence[Entry],
    estimates: Sequence[statistics.Estimate],
    marks: Sequence[float],
    colours: Colours,
) -> None:
    axes.axvline(100, color=MUTED.light, linewidth=0.8, linestyle=(0, (3, 2)))
    for row, (entry, estimate, mark) in enumerate(zip(entries, estimates, marks, strict=True)):
        colour = SERIES[colours[entry.label]].light
        if math.isfinite(estimate.value):
            (bar,) = axes.barh([row], [100 * estimate.value], height=0.62, color=colour, alpha=0.85)
            mark_series(bar, colours[entry.label])
        if estimate.interval:
            ends = [100 * end for end in estimate.interval]
            (whisker,) = axes.plot(ends, [row, row], color=INK.light, linewidth=1.1)
            mark_series(whisker, colours[entry.label])
        if math.isfinite(mark):
            (diamond,) = axes.plot([mark], [row], marker="D", markersize=4, clip_on=False)
            diamond.set(markerfacecolor=PAGE.light, markeredgecolor=INK.light, markeredgewidth=0.9)
            mark_series(diamond, colours[entry.label])
    axes.set_yticks(range(len(entries)), [_shorten(entry.label) for entry in entries])
    axes.set_ylim(len(entries) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("per cent")


def plot_heat_maps(comparison: Comparison, colours: Colours) -> Drawing | None:
    """r[i, j], one panel a method, on one colour scale; the zero-shot return left of each."""
    maps = [_returns_with_zero_shot(entry) for entry in comparison.entries]
    if not any(np.isfinite(values).any() for values in maps):
        return None
    figure, panels = panel_grid(len(maps))
    finite = np.concatenate([values[np.isfinite(values)] for values in maps])
    low, high = min(0.0, float(finite.min())), float(finite.max())
    for axes, entry, values in zip(panels, comparison.entries, maps, strict=True):
        axes.set_title(entry.label, color=SERIES[colours[entry.label]].light, fontweight="bold")
        _plot_heat(axes, values, low, high if high > low else low + 1.0)
    return Drawing(
        _name(comparison, "returns"),
        "Returns r[i, j]",
        "Rows are tasks, columns the task after which they were tested. The diagonal is a task "
        "just learnt; to its right one sees it kept or lost, to its left (italic) what could be "
        "done before any training on it.",
        f"Heat maps of returns on {comparison.title}; the numbers are in the table of all returns.",
        figure,
        panels,
    )


def _returns_with_zero_shot(entry: Entry) -> Float[np.ndarray, "T T"]:
    values = mean_over_seeds(entry.stack(lambda scores: scores.returns))
    before = mean_over_seeds(entry.stack(lambda scores: scores.zero_shot))
    for task, value in enumerate(before, start=1):
        values[task, task - 1] = value
    return values


def _plot_heat(axes: Axes, values: Float[np.ndarray, "T T"], low: float, high: float) -> None:
    num_tasks = len(values)
    masked = np.ma.masked_invalid(values)
    axes.pcolormesh(masked, cmap=_HEAT, vmin=low, vmax=high, edgecolors=PAGE.light, linewidth=2)
    for i, j in zip(*np.nonzero(np.isfinite(values)), strict=True):
        red, green, blue, _ = _HEAT((values[i, j] - low) / (high - low))
        bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        axes.text(
            j + 0.5,
            i + 0.5,
            number(float(values[i, j])),
            ha="center",
            va="center",
            color=_DARK_TEXT if bright else _LIGHT_TEXT,
            fontstyle="italic" if j < i else "normal",
        )
    ticks = np.arange(num_tasks) + 0.5
    axes.set_xticks(ticks, [str(k + 1) for k in range(num_tasks)])
    axes.set_yticks(ticks, [str(k + 1) for k in range(num_tasks)])
    axes.set_ylim(num_tasks, 0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("after task")
    axes.set_ylabel("task tested")


def plot_model_error(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Error of the model of a task against how many tasks have been learnt since."""
    kinds: list[tuple[str, Callable[[Scores], np.ndarray]]] = [
        ("One step ahead", lambda scores: scores.one_step),
        ("Over the planning horizon", lambda scores: scores.h_step),
    ]
    if not any(np.isfinite(e.stack(read)).any() for e in comparison.entries for _, read in kinds):
        return None
    figure, panels = panel_grid(len(kinds), _legend(comparison.entries, colours))
    for axes, (title, read) in zip(panels, kinds, strict=True):
        axes.set_title(title)
        for entry in comparison.entries:
            ages = np.stack([_by_age(matrix) for matrix in entry.stack(read)])
            _plot_band(axes, _as_curve(ages), colours[entry.label])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tasks learnt since")
    ends = [
        f"{entry.label} {number(metrics.mean_of_defined(entry.stack(_last_error).ravel()))}"
        for entry in comparison.entries
    ]
    return Drawing(
        _name(comparison, "model-error"),
        "Model error",
        "Error of a task's model, relative to the spread of the task's state changes (1 is as bad "
        "as predicting that nothing moves), by how many tasks have been learnt since. Planning "
        "noise does not enter here, so forgetting in the model itself shows.",
        f"Model error on {comparison.title}. One step ahead, at the end: {', '.join(ends)}.",
        figure,
        panels,
    )


def _last_error(scores: Scores) -> Float[np.ndarray, "T"]:
    return scores.one_step[:, -1]


def _by_age(matrix: Float[np.ndarray, "T T"]) -> Float[np.ndarray, "T"]:
    """The mean over tasks of e[i, i + k], for every age k."""
    return np.array([metrics.mean_of_defined(np.diagonal(matrix, k)) for k in range(len(matrix))])


def _as_curve(values: Float[np.ndarray, "K T"], start: int = 0) -> Curve:
    curve = {
        start + k: [float(v) for v in column if np.isfinite(v)] for k, column in enumerate(values.T)
    }
    return {step: points for step, points in curve.items() if points}


def plot_cost(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Seconds of an update session and bytes kept, against the index of the task."""
    seconds = [entry.stack(lambda s: s.seconds_per_session) for entry in comparison.entries]
    kept = [entry.stack(lambda s: s.bytes_kept) for entry in comparison.entries]
    if not any(np.isfinite(values).any() for values in [*seconds, *kept]):
        return None
    figure, panels = panel_grid(2, _legend(comparison.entries, colours), left=0.62)
    quantities = (
        ("Time of an update session", seconds, duration),
        ("Kept for finished tasks", kept, size),
    )
    for axes, (title, values, write) in zip(panels, quantities, strict=True):
        axes.set_title(title)
        for entry, stacked in zip(comparison.entries, values, strict=True):
            _plot_band(axes, _as_curve(stacked, start=1), colours[entry.label])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if write is size:
            # From a few embeddings to all old data; linear below 100 B, so that 0 has a place.
            axes.set_yscale("symlog", linthresh=100)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, write=write: write(value)))
        axes.set_xlabel("task")
    panels[0].set_ylim(bottom=0)
    last = [
        f"{e.label} {size(metrics.mean_of_defined(values[:, -1]))}"
        for e, values in zip(comparison.entries, kept, strict=True)
    ]
    return Drawing(
        _name(comparison, "cost"),
        "Cost as tasks accumulate",
        "A method for a lifetime must not slow down or store more and more. First, the median time "
        "of an update session in each task; then the bytes kept for finished tasks, old "
        "transitions included, on a logarithmic scale.",
        f"Cost on {comparison.title}. Kept at the end: {', '.join(last)}.",
        figure,
        panels,
    )


def plot_embeddings(comparison: Comparison, colours: Colours) -> Drawing | None:
    """The task embeddings at the end of a run on their first two principal components."""
    chosen = [
        (entry, run)
        for entry in comparison.entries
        for run in entry.runs
        if run.embeddings and len(run.embeddings[-1].vectors) > 1
    ][:_MAX_EMBEDDING_PANELS]
    if not chosen:
        return None
    figure, panels = panel_grid(len(chosen))
    for axes, (entry, run) in zip(panels, chosen, strict=True):
        points, shares = project(np.array(run.embeddings[-1].vectors))
        colour = SERIES[colours[entry.label]].light
        axes.set_title(f"{entry.label}, seed {run.seed}")
        axes.plot(*points.T, color=MUTED.light, linewidth=0.7, alpha=0.6, zorder=1)
        axes.plot(*points.T, linestyle="none", marker="o", markersize=12, color=colour)
        for task, (x, y) in enumerate(points, start=1):
            axes.text(x, y, str(task), ha="center", va="center_baseline", color=PAGE.light)
        axes.margins(0.14)
        axes.set_xlabel(f"first component ({percent(shares[0])} %)")
        axes.set_ylabel(f"second ({percent(shares[1])} %)")
    return Drawing(
        _name(comparison, "embeddings"),
        "Task embeddings",
        "The vectors from which the hypernetwork makes each task's model, projected on the two "
        "directions in which they differ most. Numbers are tasks, in the order of the line; near "
        "neighbours share much of their dynamics.",
        f"Task embeddings on {comparison.title} in two dimensions, {len(chosen)} runs.",
        figure,
        panels,
    )


def project(
    vectors: Float[np.ndarray, "T D"],
) -> tuple[Float[np.ndarray, "T 2"], Float[np.ndarray, "2"]]:
    """Coordinates on the first two principal components and their shares of the variance."""
    centred = vectors - vectors.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    padded = np.zeros((len(vectors), 2))
    padded[:, : min(2, len(singular))] = (left * singular)[:, :2]
    power = np.zeros(2)
    power[: min(2, len(singular))] = singular[:2] ** 2
    # Equal embeddings have no direction; dividing by 1 then leaves zero shares.
    return padded, power / ((singular**2).sum() or 1.0)


def _legend(entries: Sequence[Entry], colours: Colours) -> list[tuple[str, int]]:
    return [(entry.label, colours[entry.label]) for entry in entries]


def _name(comparison: Comparison, kind: str) -> str:
    return f"{comparison.slug}-{kind}"


def _shorten(label: str, limit: int = 16) -> str:
    return label if len(label) <= limit else label[: limit - 1] + "…"
