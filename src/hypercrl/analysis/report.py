"""`write_report`: from run folders to a folder with a page, tables and figures.

report/
  index.html                the page; needs none of the other files unless videos are many
  tables/  *.md *.tex *.csv
  figures/ *.png *.svg
  videos/                   only what did not fit into the page
"""

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hypercrl.analysis.comparison import Comparison, compare
from hypercrl.analysis.drawing import Rendered, render
from hypercrl.analysis.page import Chapter, build_page
from hypercrl.analysis.palette import assign_colours
from hypercrl.analysis.plots import build_drawings
from hypercrl.analysis.rollouts import VideoShelf
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables import build_tables
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import Run, find_runs, read_run

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""


def write_report(
    runs: Sequence[Path], out: Path, *, current: str = "", progress: OnProgress | None = None
) -> Path:
    """Compare run folders (or folders of runs) and return the page that shows them.

    `current` is the fingerprint of this installation's code, by which the page tells whether
    it made the runs.
    """
    tell = progress or (lambda *_: None)
    comparisons = compare(_read(runs, tell), current)
    colours = assign_colours(comparisons)
    try:
        for folder in (out, out / "tables", out / "figures"):
            folder.mkdir(parents=True, exist_ok=True)
        chapters = [_chapter(comparison, colours, out, tell) for comparison in comparisons]
        tell("Writing the page", 0, 1)
        version = importlib.metadata.version("hypercrl")
        page = build_page(chapters, colours, VideoShelf(out / "videos"), version)
        (out / "index.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"The report cannot be written to '{out}': {error.strerror}.") from error
    tell("Writing the page", 1, 1)
    return out / "index.html"


@contextlib.contextmanager
def progress_bar(console: Console) -> Iterator[OnProgress]:
    """Progress on a terminal, for `write_report`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bars = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = bar.add_task(what, total=total)
            bar.update(bars[what], completed=done)

        yield tell


def _read(paths: Sequence[Path], tell: OnProgress) -> list[Run]:
    folders = find_runs(paths)
    if not folders:
        raise UserError("A report needs at least one run folder.")
    runs = []
    for done, folder in enumerate(folders):
        tell("Reading runs", done, len(folders))
        runs.append(read_run(folder))
    tell("Reading runs", len(folders), len(folders))
    return runs


def _chapter(
    comparison: Comparison, colours: dict[str, int], out: Path, tell: OnProgress
) -> Chapter:
    what = f"Drawing {comparison.title} ({comparison.preset})"
    tell(what, 0, 1)
    tables = build_tables(comparison)
    for table in tables:
        _write_table(table, out / "tables" / f"{comparison.slug}-{table.name}")
    drawings = build_drawings(comparison, colours)
    figures = []
    for done, drawing in enumerate(drawings):
        tell(what, done, len(drawings))
        figures.append(render(drawing))
        _write_figure(figures[-1], out / "figures" / drawing.name)
    tell(what, len(drawings), len(drawings))
    return Chapter(comparison, tables, figures)


def _write_table(table: Table, stem: Path) -> None:
    for ending, content in (
        (".md", table.to_markdown()),
        (".tex", table.to_latex()),
        (".csv", table.to_csv()),
    ):
        stem.with_name(stem.name + ending).write_text(content, encoding="utf-8")


def _write_figure(figure: Rendered, stem: Path) -> None:
    stem.with_name(stem.name + ".png").write_bytes(figure.png)
    stem.with_name(stem.name + ".svg").write_text(figure.svg, encoding="utf-8")
