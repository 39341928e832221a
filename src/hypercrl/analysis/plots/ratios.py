"""Normalised return, retention and forward transfer as bars, beside single runs and the paper."""

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
from hypercrl.analysis.plots.shared import MANY_TASKS, Colours, figure_name, share_limits
from hypercrl.analysis.ratios import RETENTION, RatioMetric

_LABEL_LENGTH = 15  # letters that fit left of a panel


def plot_ratios(comparison: Comparison, colours: Colours, metric: RatioMetric) -> Drawing | None:
    entries = comparison.competitors
    found = [entry.stack(lambda s: metrics.values(metric.read(s))) for entry in entries]
    if not any(np.isfinite(values).any() for values in found):
        return None
    num_tasks = found[0].shape[1]
    shown = num_tasks if num_tasks <= MANY_TASKS else 0
    figure, panels = panel_grid(shown + 1, left=1.15)
    rows = metric.published.get(comparison.suite, {})
    averages = [np.array([metrics.mean_of_defined(run) for run in values]) for values in found]
    whole = [statistics.estimate_iqm([seeds]) for seeds in averages]
    # Who has learnt little can retain all of it: the names say how much there was to retain.
    names = [
        _shorten(e.label, f" · {e.learnt.replace(' of ', '/')}" if metric is RETENTION else "")
        for e in entries
    ]
    for index, axes in enumerate(panels):
        axes.set_title("Average" if index == 0 else f"Task {metric.first_task + index - 1}")
        points = averages if index == 0 else [values[:, index - 1] for values in found]
        each = whole if index == 0 else [statistics.estimate_iqm([seeds]) for seeds in points]
        marks = [_paper_mark(rows.get(entry.method), index, num_tasks) for entry in entries]
        _plot_bars(axes, entries, each, points, marks, colours)
        axes.set_yticks(range(len(entries)), names)
    share_limits(panels)
    told = [
        f"{e.label} {percent(s.value)} % ({e.learnt} tasks learnt)"
        for e, s in zip(entries, whole, strict=True)
    ]
    reading = (
        f"{metric.reading} Bars are interquartile means over seeds, dots the single runs, "
        "whiskers 95 % bootstrap intervals"
    )
    reading += ", beside the names how many tasks were learnt" if metric is RETENTION else ""
    reading += ", diamonds the paper's plain ratios." if metric.published else "."
    alt = f"{metric.title} on {comparison.title}, average over tasks: {', '.join(told)}."
    name = figure_name(comparison, metric.name)
    return Drawing(name, metric.title, reading, alt, figure, panels)


def _paper_mark(row: paper.Row | None, index: int, num_tasks: int) -> float:
    """The paper's percentage for a panel: the average first, then its tasks."""
    if row is None or len(row.tasks) != num_tasks:
        return math.nan
    return row.average[0] if index == 0 else row.tasks[index - 1][0]


def _plot_bars(
    axes: Axes,
    entries: Sequence[Entry],
    estimates: Sequence[statistics.Estimate],
    points: statistics.Strata,
    marks: Sequence[float],
    colours: Colours,
) -> None:
    axes.axvline(100, color=MUTED.light, linewidth=0.8, linestyle=(0, (3, 2)))
    rows = zip(entries, estimates, points, marks, strict=True)
    for row, (entry, estimate, seeds, mark) in enumerate(rows):
        colour = SERIES[colours[entry.label]].light
        if math.isfinite(estimate.value):
            (bar,) = axes.barh([row], [100 * estimate.value], height=0.62, color=colour, alpha=0.85)
            mark_series(bar, colours[entry.label])
        if estimate.interval:
            ends = [100 * end for end in estimate.interval]
            (whisker,) = axes.plot(ends, [row, row], color=INK.light, linewidth=1.1)
            mark_series(whisker, colours[entry.label])
        if np.isfinite(seeds).any():
            (dots,) = axes.plot(100 * seeds, np.full(len(seeds), row + 0.18), "o", markersize=3.4)
            dots.set(markerfacecolor=INK.light, markeredgecolor=PAGE.light, markeredgewidth=0.5)
            mark_series(dots, colours[entry.label])
        if math.isfinite(mark):
            (diamond,) = axes.plot([mark], [row], marker="D", markersize=4, clip_on=False)
            diamond.set(markerfacecolor=PAGE.light, markeredgecolor=INK.light, markeredgewidth=0.9)
            mark_series(diamond, colours[entry.label])
    axes.set_ylim(len(entries) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("per cent")


def _shorten(label: str, extra: str) -> str:
    """Without its middle if it is too long: what tells two variants apart stands at the end."""
    room = _LABEL_LENGTH - len(extra)
    if len(label) > room:
        head = room // 3
        label = f"{label[:head]}…{label[head + 1 - room :]}"
    return label + extra
