"""The tables of a comparison; what has no content is left out.

Over seeds a cell gives mean ± sample standard deviation, as the paper does; the interquartile
mean with its 95 % interval stands in a column of its own. Under a ratio stand the returns
themselves where it is undefined, and under the plain ratios the paper's numbers.
"""

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.ratios import RATIOS
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables import cost, lifetime, metrics, ranking, ratios, returns, runs


def build_tables(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has content for."""
    builders = (
        ranking.ranking_table,
        lifetime.lifetime_table,
        metrics.metrics_table,
        returns.returns_table,
        returns.success_table,
        ranking.improvement_table,
        metrics.model_error_table,
        cost.cost_table,
        returns.matrix_table,
        runs.runs_table,
        runs.folders_table,
        runs.settings_table,
        runs.all_settings_table,
    )
    tables: list[Table | None] = [build(comparison) for build in builders]
    for metric in RATIOS:
        tables += [ratios.ratio_table(comparison, metric), ratios.plain_table(comparison, metric)]
    return [table for table in tables if table is not None and table.rows]
