"""The shortest honest account of a set of runs, for a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison, Entry, compare, mean_over_seeds
from hypercrl.analysis.formatting import UNDEFINED, number, percent, seeds
from hypercrl.experiment.run_folder import find_runs, read_run


def summarise(runs: Sequence[Path], console: Console) -> None:
    """Print r[i, j] of every method, then retention and forward transfer, means over seeds."""
    for comparison in compare([read_run(path) for path in find_runs(runs)]):
        console.rule(escape(f"{comparison.title} · preset {comparison.preset}"))
        for entry in comparison.entries:
            console.print(_returns_table(comparison, entry))
        console.print(_transfer_table(comparison))
        console.print(_explain(comparison))


def _returns_table(comparison: Comparison, entry: Entry) -> Table:
    title = f"{entry.label}: mean return ({seeds(entry.seeds)})"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("task")
    for j in range(len(comparison.tasks)):
        table.add_column(f"after {j + 1}", justify="right")
    returns = mean_over_seeds(entry.stack(lambda scores: scores.returns))
    for i, name in enumerate(comparison.tasks):
        cells = ["" if j < i else number(r) for j, r in enumerate(returns[i])]
        if math.isfinite(returns[i, i]):
            cells[i] = f"[bold]{cells[i]}[/bold]"
        table.add_row(f"{i + 1}  {escape(name)}", *cells)
    return table


def _transfer_table(comparison: Comparison) -> Table:
    table = Table(title="What is kept, and what helps", title_justify="left")
    table.add_column("method")
    for column in ("retention", "forward transfer", "return at the end", "runs finished"):
        table.add_column(column, justify="right")
    for entry in comparison.entries:
        kept = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.retention)))
        helped = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.forward_transfer)))
        final = entry.stack(lambda s: s.average_performance)
        finished = sum(run.complete for run in entry.runs)
        table.add_row(
            escape(entry.label),
            _in_percent(metrics.mean_of_defined(kept)),
            _in_percent(metrics.mean_of_defined(helped)),
            number(metrics.mean_of_defined(final)),
            f"{finished} of {len(entry.runs)}",
        )
    return table


def _explain(comparison: Comparison) -> str:
    lines = ["Retention: return on tasks before the last after all training, against when learnt."]
    if np.isnan(comparison.reference).all():
        lines.append(
            "Forward transfer needs runs of the method "
            f"'{metrics.REFERENCE_METHOD}' on the same suite and preset."
        )
    return "\n".join(lines)


def _in_percent(value: float) -> str:
    return f"{percent(value)} %" if math.isfinite(value) else UNDEFINED
