"""What is left of a long life: returns over all tasks seen, of the first and of the newest."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import number, percent
from hypercrl.analysis.lifetimes import NORMALISED, all_seen, is_life, life_matrices, smooth
from hypercrl.analysis.metrics import Matrix
from hypercrl.analysis.plots.shared import Colours, as_curve, figure_name, legend, plot_band

Read = Callable[[Matrix], Float[np.ndarray, "T"]]


def plot_lifetime(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Against the number of tasks learnt; of all tasks where all of them were tested at once."""
    if not is_life(comparison):
        return None
    entries = comparison.entries
    matrices, is_normalised = life_matrices(comparison)
    write = percent if is_normalised else number
    figure, panels = panel_grid(3, legend(entries, colours))
    quantities: dict[str, Read] = {
        "All tasks seen": all_seen,
        "The first task": lambda matrix: smooth(matrix[0]),
        "The newest task": lambda matrix: smooth(np.diagonal(matrix)),
    }
    for axes, (title, read) in zip(panels, quantities.items(), strict=True):
        axes.set_title(title)
        for entry, found in zip(entries, matrices, strict=True):
            curve = as_curve(np.stack([read(matrix) for matrix in found]), start=1)
            plot_band(axes, curve, colours[entry.label])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
        axes.set_xlabel("tasks learnt")
    unit = NORMALISED if is_normalised else "Return"
    return Drawing(
        figure_name(comparison, "lifetime"),
        "A lifetime",
        f"{unit}, as tasks accumulate: averaged over all tasks seen, wherever all of them were "
        "tested at once; of the first task, which has had the longest time to be forgotten; and of "
        "the newest, when it had just been learnt. The latter two are running means over a tenth "
        "of the life. Lines are means over seeds, bands one standard deviation.",
        f"All tasks seen on {comparison.title}, at the end: {_ends(entries, matrices, write)}.",
        figure,
        panels,
    )


def _ends(entries: tuple[Entry, ...], matrices: list[list[Matrix]], write) -> str:
    means = [
        metrics.mean_of_defined(np.array([all_seen(m)[-1] for m in found])) for found in matrices
    ]
    return ", ".join(f"{e.label} {write(mean)}" for e, mean in zip(entries, means, strict=True))
