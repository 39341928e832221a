"""Method against method: which one's runs end higher."""

import math

from hypercrl.analysis import statistics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.formatting import percent
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import sources


def improvement_table(comparison: Comparison) -> Table | None:
    """Probability that a run of the row's method ends with a higher return than the column's."""
    entries = comparison.entries
    if len(entries) < 2:
        return None
    strata = [list(entry.stack(lambda s: s.returns[:, -1]).T) for entry in entries]
    rows = []
    for a, entry in enumerate(entries):
        cells = [
            Cell("") if a == b else _improvement_cell(strata[a], strata[b])
            for b in range(len(entries))
        ]
        rows.append((entry.label, tuple(cells)))
    return Table(
        "improvement",
        "Probability of improvement, %",
        "How probable it is that a run of the row's method ends with a higher return on a task "
        "than a run of the column's. 50 is no difference; below stands the 95 % interval.",
        "Row beats column",
        tuple(entry.label for entry in entries),
        tuple(rows),
        sources(entries),
    )


def _improvement_cell(ours: statistics.Strata, theirs: statistics.Strata) -> Cell:
    estimate = statistics.estimate_improvement(ours, theirs)
    low, high = estimate.interval or (math.nan, math.nan)
    note = f"{percent(low)} to {percent(high)}" if estimate.interval else ""
    return Cell(percent(estimate.value), note, {"": estimate.value, "low": low, "high": high})
