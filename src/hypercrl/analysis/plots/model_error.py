"""How the model of a task gets worse as others are learnt."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import MaxNLocator

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import number
from hypercrl.analysis.metrics import Scores
from hypercrl.analysis.plots.shared import Colours, as_curve, figure_name, legend, plot_band


def plot_model_error(comparison: Comparison, colours: Colours) -> Drawing | None:
    """Error of the model of a task against how many tasks have been learnt since."""
    kinds: list[tuple[str, Callable[[Scores], np.ndarray]]] = [
        ("One step ahead", lambda scores: scores.one_step),
        ("Over the planning horizon", lambda scores: scores.h_step),
    ]
    if not any(np.isfinite(e.stack(read)).any() for e in comparison.entries for _, read in kinds):
        return None
    figure, panels = panel_grid(len(kinds), legend(comparison.entries, colours))
    for axes, (title, read) in zip(panels, kinds, strict=True):
        axes.set_title(title)
        for entry in comparison.entries:
            ages = np.stack([_by_age(matrix) for matrix in entry.stack(read)])
            plot_band(axes, as_curve(ages), colours[entry.label])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tasks learnt since")
    ends = [
        f"{entry.label} {number(metrics.mean_of_defined(entry.stack(_last_error).ravel()))}"
        for entry in comparison.entries
    ]
    return Drawing(
        figure_name(comparison, "model-error"),
        "Model error",
        "Error of a task's model, relative to the spread of the task's state changes (1 is as bad "
        "as predicting that nothing moves), by how many tasks have been learnt since. All methods "
        "are measured on the same transitions (not so runs of version 0.1.0, which the table "
        "marks). Planning noise does not enter here, so forgetting in the model itself shows.",
        f"Model error on {comparison.title}. One step ahead, at the end: {', '.join(ends)}.",
        figure,
        panels,
    )


def _last_error(scores: Scores) -> Float[np.ndarray, "T"]:
    return scores.one_step[:, -1]


def _by_age(matrix: Float[np.ndarray, "T T"]) -> Float[np.ndarray, "T"]:
    """The mean over tasks of e[i, i + k], for every age k."""
    return np.array([metrics.mean_of_defined(np.diagonal(matrix, k)) for k in range(len(matrix))])
