"""The tables of a comparison; what has no content is left out.

Over seeds a cell gives mean ± sample standard deviation, as the paper does; the interquartile
mean with its 95 % interval stands in a column of its own. Under a ratio stand the returns
themselves where it is undefined, and under the plain ratios the paper's numbers.
"""

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables import cost, metrics, ranking, ratios, returns, runs


def build_tables(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has content for."""
    builders = (
        ranking.ranking_table,
        ratios.normalised_table,
        ratios.retention_table,
        ratios.plain_retention_table,
        ratios.forward_transfer_table,
        ratios.plain_transfer_table,
        metrics.metrics_table,
        returns.returns_table,
        returns.success_table,
        ranking.improvement_table,
        metrics.model_error_table,
        cost.cost_table,
        returns.matrix_table,
        runs.runs_table,
        runs.settings_table,
    )
    tables = (build(comparison) for build in builders)
    return [table for table in tables if table is not None and table.rows]
