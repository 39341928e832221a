"""The shortest honest account of a set of runs, for a terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich import table as rich_table
from rich.console import Console
from rich.markup import escape

from hypercrl.analysis.comparison import compare
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables.ranking import ranking_table
from hypercrl.analysis.tables.ratios import paper_table
from hypercrl.analysis.tables.returns import matrix_table
from hypercrl.analysis.tables.runs import runs_table
from hypercrl.errors import printable
from hypercrl.experiment.run_folder import find_runs, read_runs


def summarise(runs: Sequence[Path], console: Console, *, current: str = "") -> None:
    """Print r[i, j] of every method, their ranking, what stands behind it, and the paper's."""
    readable, unreadable = read_runs(find_runs(runs))
    for reason in unreadable.values():
        line = f"Left out: {printable(reason)}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for comparison in compare(readable, current):
        console.rule(escape(f"{comparison.title} · preset {comparison.preset}"))
        for build in (matrix_table, runs_table, ranking_table, paper_table):
            table = build(comparison)
            if table is None:
                continue
            console.print(_for_terminal(table))
            console.print(escape(table.reading), highlight=False)


def _for_terminal(table: Table) -> rich_table.Table:
    written = rich_table.Table(title=escape(table.title), title_justify="left")
    written.add_column(escape(table.corner))
    for k, column in enumerate(table.columns):
        is_prose = any(cells[k].is_prose for _, cells in table.rows)
        written.add_column(escape(column), justify="left" if is_prose else "right")
    for name, cells in table.rows:
        texts = [f"{cell.text}\n{cell.note}" if cell.note else cell.text for cell in cells]
        written.add_row(escape(name), *map(escape, texts))
    return written
