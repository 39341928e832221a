"""What each table of the docs cost: a Markdown page, computed from the records under `results/`.

    python tools/costs.py

A row is a folder of records and a suite in it. The tables are the sections of `docs/` that name
the folder, and the commands those that train in these sections; hours and bytes are measured.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypercrl.analysis.formatting import size
from hypercrl.experiment.run_folder import Run, find_runs, read_run
from hypercrl.registry import learners

SECONDS_PER_HOUR = 3600
CHECKPOINTS = 2  # a run keeps the last one and the one before
DEMOS = {"pusher": "make demo", "cartpole": "make demo-cartpole"}

_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_TRAINS = re.compile(r"^(hypercrl (?:train|sweep) .*|make (?:demo|table).*)$", re.MULTILINE)
_SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_MAKE = re.compile(r"`(make demo[\w-]*)`")

INTRODUCTION = """\
# What a table costs

Which table, which command, how many hours on one core, how much disk. This page is computed from
the records under `results/` whenever the site is built (`python tools/costs.py` prints it); a run
is one process with one thread. The hours are those on the clock of the machines that made the
records, of which some did other things too, so they are an upper bound. Disk is what the records
take, and two checkpoints of at most the largest state that the run recorded (runs of version
0.1.0 recorded none, so there it is the records alone); videos, if asked for, come on top.

| table | records | command | runs | hours on one core: all, a run | disk: all, a run |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Section:
    """A heading of a guide and everything below it, deeper headings included."""

    page: str
    title: str
    text: str

    @property
    def link(self) -> str:
        anchor = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", self.title.lower())).strip("-")
        return f"[{self.title}]({self.page}#{anchor})"

    def commands(self, suite: str, methods: set[str]) -> list[str]:
        """What makes such runs here."""
        named = _TRAINS.findall("\n".join(_SHELL.findall(self.text)))
        wanted = [
            line for line in named if suite in line and methods & {*line.split(), *_all(line)}
        ]
        made = (line for line in _MAKE.findall(self.text) if line == DEMOS.get(suite))
        return [re.sub(r"\s+#.*", "", line) for line in wanted] or list(made)


def _all(line: str) -> set[str]:
    every = ("--method all", "--file", "make table")
    return set(learners.names()) if any(words in line for words in every) else set()


def costs_page(root: Path) -> str:
    """The whole page for the project in `root`."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for folder in find_runs([root / "results"]):
        run = read_run(folder)
        groups[str(folder.parent.relative_to(root)), run.suite].append(run)
    sections = [s for path in sorted((root / "docs").glob("*.md")) for s in _sections(path)]
    rows = [_row(folder, suite, runs, sections) for (folder, suite), runs in groups.items()]
    return INTRODUCTION + "\n".join(rows) + "\n"


def _sections(path: Path) -> Iterator[Section]:
    text = path.read_text()
    headings = list(_HEADING.finditer(re.sub(r"```.*?```", _blank, text, flags=re.DOTALL)))
    for heading in headings:
        level = len(heading[1])
        later = (h.start() for h in headings if h.start() > heading.start() and len(h[1]) <= level)
        yield Section(path.name, heading[2], text[heading.start() : next(later, len(text))])


def _blank(block: re.Match) -> str:
    """Code of the same length in which no line is a heading."""
    return re.sub(r"[^\n]", " ", block[0])


def _row(folder: str, suite: str, runs: Sequence[Run], sections: Sequence[Section]) -> str:
    wanted = re.compile(rf"{re.escape(folder)}(?:/(?:{suite}[\w.*-]*)?)?(?![/.-]?\w)")
    naming = [section for section in sections if wanted.search(section.text)]
    # The innermost of nested sections.
    tables = [s for s in naming if not any(o is not s and o.text in s.text for o in naming)]
    methods = {run.method for run in runs}
    made = {table: table.commands(suite, methods) for table in tables}
    tables = [table for table in tables if made[table]] or tables
    commands = dict.fromkeys(command for table in tables for command in made[table])
    hours = sum(t.seconds for run in runs for t in run.task_times) / SECONDS_PER_HOUR
    disk = sum(map(_bytes_on_disk, runs))
    shown = [f"`{command}`" for command in commands] or [f"`hypercrl train --config {folder}/RUN`"]
    cells = (
        "<br>".join(dict.fromkeys(table.link for table in tables)) or "–",
        f"`{folder}`, {suite}",
        "<br>".join(shown),
        str(len(runs)),
        f"{hours:.2g}, {hours / len(runs):.2g}",
        ", ".join(size(count).replace(" ", "\u00a0") for count in (disk, disk / len(runs))),
    )
    return f"| {' | '.join(cells)} |"


def _bytes_on_disk(run: Run) -> int:
    records = sum(file.stat().st_size for file in run.path.iterdir() if file.is_file())
    peak = max((cost.peak_bytes or 0 for cost in run.costs), default=0)
    return records + CHECKPOINTS * peak


if __name__ == "__main__":
    print(costs_page(Path(__file__).parents[1]), end="")
