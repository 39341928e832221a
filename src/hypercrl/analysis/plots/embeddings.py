"""Where the hypernetwork has put the tasks, in two dimensions."""

import numpy as np
from jaxtyping import Float

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Drawing, panel_grid
from hypercrl.analysis.formatting import percent
from hypercrl.analysis.palette import MUTED, PAGE, SERIES
from hypercrl.analysis.plots.shared import Colours, figure_name

_MAX_EMBEDDING_PANELS = 6


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
        figure_name(comparison, "embeddings"),
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
