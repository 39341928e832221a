"""The return on every task after every task, as heat maps."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from hypercrl.analysis.comparison import Comparison, Entry, mean_over_seeds
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import number
from hypercrl.analysis.palette import PAGE, SERIES
from hypercrl.analysis.plots.shared import MANY_TASKS, Colours, figure_name

# Brown, cream, green: lost, so-so, kept. Safe for red-green deficiency and on either theme.
_HEAT = LinearSegmentedColormap.from_list(
    "kept", ["#8c5a2b", "#d9b98a", "#f1ecdf", "#7dbfae", "#14705f"]
)
_DARK_TEXT, _LIGHT_TEXT = "#14181f", "#fbfbfa"  # on heat-map cells, whatever the theme


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
        figure_name(comparison, "returns"),
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
    many = num_tasks > MANY_TASKS
    gaps = {} if many else {"edgecolors": PAGE.light, "linewidth": 2}
    # Ten thousand cells as shapes would weigh megabytes on the page; as a picture they do not.
    axes.pcolormesh(masked, cmap=_HEAT, vmin=low, vmax=high, rasterized=many, **gaps)
    for i, j in [] if many else zip(*np.nonzero(np.isfinite(values)), strict=True):
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
    shown = range(0, num_tasks, -(-num_tasks // MANY_TASKS))
    axes.set_xticks([k + 0.5 for k in shown], [str(k + 1) for k in shown])
    axes.set_yticks([k + 0.5 for k in shown], [str(k + 1) for k in shown])
    axes.set_ylim(num_tasks, 0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlabel("after task")
    axes.set_ylabel("task tested")
