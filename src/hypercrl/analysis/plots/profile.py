"""Performance profiles: how large a share of runs does at least so well."""

import numpy as np
from matplotlib.ticker import PercentFormatter

from hypercrl.analysis import metrics, statistics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Drawing, mark_series, panel_grid
from hypercrl.analysis.formatting import percent
from hypercrl.analysis.palette import MUTED, SERIES
from hypercrl.analysis.plots.shared import Colours, figure_name, legend

_NUM_THRESHOLDS = 101


def plot_profile(comparison: Comparison, colours: Colours) -> Drawing | None:
    """The share of tasks and seeds whose normalised return at the end is above τ, against τ."""
    entries = comparison.competitors
    found = [entry.stack(lambda s: metrics.values(s.normalised)) for entry in entries]
    known = np.concatenate([values[np.isfinite(values)] for values in found] or [np.empty(0)])
    if not known.size:
        return None
    thresholds = np.linspace(min(0.0, known.min()), max(1.0, known.max()), _NUM_THRESHOLDS)
    figure, (axes,) = panel_grid(1, legend(entries, colours))
    axes.axvline(metrics.LEARNT, color=MUTED.light, linewidth=0.7, linestyle=(0, (1, 2)))
    for entry, values in zip(entries, found, strict=True):
        index, colour = colours[entry.label], SERIES[colours[entry.label]].light
        profile = statistics.performance_profile(list(values.T), thresholds)
        (line,) = axes.step(thresholds, profile.shares, where="post", color=colour)
        mark_series(line, index)
        if profile.band:
            band = axes.fill_between(
                thresholds, *profile.band, step="post", color=colour, alpha=0.14, linewidth=0
            )
            mark_series(band, index)
    axes.set_title("Share of tasks and seeds above")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_xlabel("normalised return at the end, per cent")
    axes.set_ylim(0, 1.03)
    above = [
        f"{e.label} {percent(float(np.nanmean(v > metrics.LEARNT)))} %"
        for e, v in zip(entries, found, strict=True)
    ]
    return Drawing(
        figure_name(comparison, "profile"),
        "Performance profile",
        "How many of all tasks and seeds end above a normalised return (Agarwal et al. 2021). A "
        "curve that lies higher everywhere is better whatever one asks for; a step shows tasks "
        "or seeds that fail while others do well. Bands are 95 % bootstrap intervals, the dotted "
        "line is half of the single-task model's gain.",
        f"Performance profiles on {comparison.title}. Above half: {', '.join(above)}.",
        figure,
        (axes,),
    )
