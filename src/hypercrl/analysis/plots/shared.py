"""What several figures share: names, legends, scales, and curves over seeds."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.drawing import mark_series
from hypercrl.analysis.palette import SERIES

MANY_TASKS = 12  # more than there are panels, or cells with a number, to be read

Colours = dict[str, int]  # an entry's label: its index into the palette
Curve = dict[int, list[float]]  # total step: one value a seed


def figure_name(comparison: Comparison, kind: str) -> str:
    return f"{comparison.slug}-{kind}"


def legend(entries: Sequence[Entry], colours: Colours) -> list[tuple[str, int]]:
    return [(entry.label, colours[entry.label]) for entry in entries]


def share_limits(panels: Sequence[Axes]) -> None:
    """One scale for all panels, so that they can be compared at a glance."""
    used = [axes for axes in panels if axes.lines or axes.patches]
    low, high = min(a.get_ylim()[0] for a in used), max(a.get_ylim()[1] for a in used)
    left, right = min(a.get_xlim()[0] for a in used), max(a.get_xlim()[1] for a in used)
    for axes in panels:
        axes.set(xlim=(left, right), ylim=(low, high))


def as_curve(values: Float[np.ndarray, "K T"], start: int = 0) -> Curve:
    curve = {
        start + k: [float(v) for v in column if np.isfinite(v)] for k, column in enumerate(values.T)
    }
    return {step: points for step, points in curve.items() if points}


def plot_band(axes: Axes, curve: Curve, colour: int) -> None:
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
