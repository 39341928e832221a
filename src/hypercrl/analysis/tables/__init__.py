"""The tables of a comparison, one file a kind; what has no content is left out.

Over seeds a cell gives mean ± sample standard deviation, as the paper does; the interquartile
mean with its 95 % interval stands in a column of its own. Under a ratio stands the paper's
number where it has one, and the returns themselves where the ratio is undefined.
"""

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables.cost import cost_table
from hypercrl.analysis.tables.improvement import improvement_table
from hypercrl.analysis.tables.matrix import matrix_table
from hypercrl.analysis.tables.metrics import metrics_table
from hypercrl.analysis.tables.model_error import model_error_table
from hypercrl.analysis.tables.ratios import forward_transfer_table, retention_table
from hypercrl.analysis.tables.returns import returns_table, success_table
from hypercrl.analysis.tables.runs import runs_table


def build_tables(comparison: Comparison) -> list[Table]:
    """Every table that the comparison has content for."""
    builders = (
        retention_table,
        forward_transfer_table,
        metrics_table,
        returns_table,
        success_table,
        improvement_table,
        model_error_table,
        cost_table,
        matrix_table,
        runs_table,
    )
    tables = (build(comparison) for build in builders)
    return [table for table in tables if table is not None and table.rows]
