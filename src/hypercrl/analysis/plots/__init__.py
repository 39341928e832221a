"""The figures of a comparison, one file each; what has no content is not drawn."""

import matplotlib

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import STYLE, Drawing
from hypercrl.analysis.plots.cost import plot_cost
from hypercrl.analysis.plots.embeddings import plot_embeddings
from hypercrl.analysis.plots.heat_maps import plot_heat_maps
from hypercrl.analysis.plots.learning_curves import plot_learning_curves
from hypercrl.analysis.plots.lifetime import plot_lifetime
from hypercrl.analysis.plots.model_error import plot_model_error
from hypercrl.analysis.plots.profile import plot_profile
from hypercrl.analysis.plots.ratios import plot_ratios
from hypercrl.analysis.plots.shared import Colours
from hypercrl.analysis.ratios import RATIOS


def build_drawings(comparison: Comparison, colours: Colours) -> list[Drawing]:
    """Every figure that the comparison has content for."""
    plots = (
        plot_profile,
        plot_lifetime,
        plot_learning_curves,
        plot_heat_maps,
        plot_model_error,
        plot_cost,
        plot_embeddings,
    )
    with matplotlib.rc_context(STYLE):
        drawings = [plot(comparison, colours) for plot in plots]
        drawings += [plot_ratios(comparison, colours, metric) for metric in RATIOS]
    return [drawing for drawing in drawings if drawing is not None]
