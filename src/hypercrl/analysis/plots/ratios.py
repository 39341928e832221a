"""Retention and forward transfer as bars, beside the paper's numbers."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hypercrl.analysis import metrics, paper, statistics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.drawing import Drawing, mark_series, panel_grid
from hypercrl.analysis.formatting import percent
from hypercrl.analysis.palette import INK, MUTED, PAGE, SERIES
from hypercrl.analysis.plots.shared import Colours, figure_name, share_limits
from hypercrl.analysis.ratios import FORWARD_TRANSFER, RETENTION, RatioMetric


def plot_retention(comparison: Comparison, colours: Colours) -> Drawing | None:
    return _plot_ratios(
        comparison,
        colours,
        RETENTION,
        "Retention",
        "What is left at the end of the return that a task had when it was learnt. Bars are "
        "interquartile means over seeds, whiskers 95 % bootstrap intervals, diamonds the paper.",
    )


def plot_forward_transfer(comparison: Comparison, colours: Colours) -> Drawing | None:
    return _plot_ratios(
        comparison,
        colours,
        FORWARD_TRANSFER,
        "Forward transfer",
        "The return on a task when just learnt, against a model that has only ever seen this "
        "task. Bars, whiskers and diamonds as for retention.",
    )


def _plot_ratios(
    comparison: Comparison, colours: Colours, metric: RatioMetric, title: str, reading: str
) -> Drawing | None:
    entries = [entry for entry in comparison.entries if not entry.is_reference]
    found = [entry.stack(lambda s: metrics.values(metric.read(s))) for entry in entries]
    if not any(np.isfinite(values).any() for values in found):
        return None
    num_tasks = len(comparison.tasks) - 1
    figure, panels = panel_grid(num_tasks + 1, left=0.95)
    rows = metric.published.get(comparison.suite, {})
    whole = [statistics.estimate_iqm(list(values.T)) for values in found]
    columns = [[statistics.estimate_iqm([v[:, task]]) for v in found] for task in range(num_tasks)]
    for index, (axes, estimates) in enumerate(zip(panels, [whole, *columns], strict=True)):
        axes.set_title("Average" if index == 0 else f"Task {metric.first_task + index - 1}")
        marks = [_paper_mark(rows.get(entry.method), index, num_tasks) for entry in entries]
        _plot_bars(axes, entries, estimates, marks, colours)
    share_limits(panels)
    shown = [f"{e.label} {percent(s.value)} %" for e, s in zip(entries, whole, strict=True)]
    alt = f"{title} on {comparison.title}, average over tasks: {', '.join(shown)}."
    return Drawing(figure_name(comparison, metric.name), title, reading, alt, figure, panels)


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


def _shorten(label: str, limit: int = 16) -> str:
    return label if len(label) <= limit else label[: limit - 1] + "…"
