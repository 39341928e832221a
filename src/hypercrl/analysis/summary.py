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
from hypercrl.analysis.tables.runs import describe_reference
from hypercrl.experiment.run_folder import find_runs, read_run


def summarise(runs: Sequence[Path], console: Console) -> None:
    """Print r[i, j] of every method, then their ranking, means over seeds."""
    for comparison in compare([read_run(path) for path in find_runs(runs)]):
        console.rule(escape(f"{comparison.title} · preset {comparison.preset}"))
        for entry in comparison.entries:
            console.print(_returns_table(comparison, entry))
        console.print(_ranking(comparison))
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


def _ranking(comparison: Comparison) -> Table:
    table = Table(title="What is learnt, kept and helped", title_justify="left")
    table.add_column("method")
    for column in (
        "normalised return",
        "tasks learnt",
        "retention",
        "forward transfer",
        "return at the end",
        "runs finished",
    ):
        table.add_column(column, justify="right")
    for entry in comparison.entries:
        kept = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.retention)))
        helped = entry.stack(lambda s: metrics.mean_of_defined(metrics.values(s.forward_transfer)))
        finished = sum(run.complete for run in entry.runs)
        table.add_row(
            escape(entry.label),
            _in_percent(entry.normalised),
            entry.learnt,
            _in_percent(metrics.mean_of_defined(kept)),
            _in_percent(metrics.mean_of_defined(helped)),
            number(entry.final_return),
            f"{finished} of {len(entry.runs)}",
        )
    return table


def _explain(comparison: Comparison) -> str:
    by = "normalised return" if comparison.ranks_normalised else "return"
    lines = [
        f"Methods stand in the order of their {by} at the end. Retention: gain over random actions "
        "on tasks before the last, after all training against when learnt; of tasks learnt only."
    ]
    competitors = comparison.competitors
    if any(np.isnan(entry.yardstick.random).any() for entry in competitors):
        lines.append(
            "The return of random actions was not measured (runs of version 0.1.0), so nothing is "
            "normalised and gains are counted from 0."
        )
    lacking: dict[str, list[str]] = {}
    for entry in competitors:
        if not entry.yardstick.runs:
            lacking.setdefault(describe_reference(comparison, entry), []).append(entry.label)
    lines += [f"No reference for {', '.join(who)}: {why}." for why, who in lacking.items()]
    return escape("\n".join(lines))


def _in_percent(value: float) -> str:
    return f"{percent(value)} %" if math.isfinite(value) else UNDEFINED
