"""`write_report`: from run folders to a folder with a page, tables and figures.

report/
  index.html                the page; needs none of the other files unless videos are many
  tables/  *.md *.tex *.csv
  figures/ *.png *.svg
  videos/                   only what did not fit into the page
"""

import contextlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hypercrl import reading, writing
from hypercrl.analysis.comparison import Comparison, compare
from hypercrl.analysis.drawing import Rendered, render
from hypercrl.analysis.page import Chapter, build_page
from hypercrl.analysis.palette import assign_colours
from hypercrl.analysis.plots import build_drawings
from hypercrl.analysis.rollouts import VideoShelf
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables import build_tables
from hypercrl.errors import UserError, printable
from hypercrl.experiment.run_folder import Run, find_runs, read_runs
from hypercrl.reading import show

PAGE = "index.html"
OURS = {PAGE, "tables", "figures", "videos", f"{PAGE}{writing.PARTIAL}"}
MARK = b"<title>hypercrl report"  # near the top of every page
HEAD = 4_000  # bytes
LARGEST_PAGE = 1_000_000_000

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
    _require_ours(out)
    readable, unreadable = _read(runs, tell)
    comparisons = compare(readable, current)
    colours = assign_colours(comparisons)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in ("tables", "figures"):
            writing.make_folder(out / name)
        chapters = [_chapter(comparison, colours, out, tell) for comparison in comparisons]
        tell("Writing the page", 0, 1)
        version = importlib.metadata.version("hypercrl")
        page = build_page(chapters, colours, VideoShelf(out / "videos"), version, unreadable)
        writing.replace(out / PAGE, page.encode())
    except OSError as error:
        raise UserError(
            f"The report cannot be written to '{show(out)}': {error.strerror or error}."
        ) from error
    tell("Writing the page", 1, 1)
    return out / PAGE


@contextlib.contextmanager
def progress_bar(console: Console) -> Iterator[OnProgress]:
    """Progress on a terminal, for `write_report`."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bars = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = bar.add_task(what, total=total)
            bar.update(bars[what], completed=done)

        yield tell


def _read(paths: Sequence[Path], tell: OnProgress) -> tuple[list[Run], dict[Path, str]]:
    folders = find_runs(paths)
    if not folders:
        raise UserError("A report needs at least one run folder.")
    runs: list[Run] = []
    unreadable: dict[Path, str] = {}
    for done, folder in enumerate(folders):
        tell("Reading runs", done, len(folders))
        more, bad = read_runs([folder])
        runs += more
        unreadable |= bad
    tell("Reading runs", len(folders), len(folders))
    if not runs:
        raise UserError(next(iter(unreadable.values())))
    return runs, unreadable


def _require_ours(out: Path) -> None:
    """A report may take the place of a report, but of nothing else."""
    if not out.is_dir():
        return
    names = set(os.listdir(out))
    try:
        page = reading.read_bytes(out / PAGE, LARGEST_PAGE)[:HEAD] if PAGE in names else MARK
    except UserError:
        page = b""
    foreign = sorted(names - OURS) or ([] if MARK in page else [PAGE])
    if foreign:
        raise UserError(
            f"'{show(out)}' holds {printable(', '.join(foreign[:3]))}, which is not of a report; "
            "choose another --out."
        )


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
        writing.replace(stem.with_name(stem.name + ending), content.encode())


def _write_figure(figure: Rendered, stem: Path) -> None:
    writing.replace(stem.with_name(stem.name + ".png"), figure.png)
    writing.replace(stem.with_name(stem.name + ".svg"), figure.svg.encode())
