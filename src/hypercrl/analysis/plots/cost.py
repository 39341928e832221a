"""What a method costs in time and memory as tasks accumulate."""

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import duration, size
from hypercrl.analysis.plots.shared import Colours, as_curve, figure_name, legend, plot_band


def plot_cost(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Seconds of an update session, bytes kept and bytes held, against the index of the task."""
    quantities = [
        ("Time of an update session", lambda s: s.seconds_per_session, duration),
        ("Kept for finished tasks", lambda s: s.bytes_kept, size),
        ("Held at the peak of learning", lambda s: s.peak_bytes, size),
    ]
    found = [[entry.stack(read) for entry in comparison.entries] for _, read, _ in quantities]
    if not any(np.isfinite(stacked).any() for stack in found for stacked in stack):
        return None
    figure, panels = panel_grid(len(quantities), legend(comparison.entries, colours), left=0.62)
    for axes, (title, _, write), stack in zip(panels, quantities, found, strict=True):
        axes.set_title(title)
        for entry, stacked in zip(comparison.entries, stack, strict=True):
            plot_band(axes, as_curve(stacked, start=1), colours[entry.label])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if write is size:
            # From a few embeddings to all old data; linear below 100 B, so that 0 has a place.
            axes.set_yscale("symlog", linthresh=100)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, write=write: write(value)))
        axes.set_xlabel("task")
    panels[0].set_ylim(bottom=0)
    last = [
        f"{e.label} {size(metrics.mean_of_defined(values[:, -1]))}"
        for e, values in zip(comparison.entries, found[1], strict=True)
    ]
    return Drawing(
        figure_name(comparison, "cost"),
        "Cost as tasks accumulate",
        "A method for a lifetime must not slow down or store more and more. First, the median time "
        "of an update session in each task; then the bytes kept for finished tasks, old "
        "transitions included, and the most that is held at once while a task is learnt, both on "
        "a logarithmic scale.",
        f"Cost on {comparison.title}. Kept at the end: {', '.join(last)}.",
        figure,
        panels,
    )
