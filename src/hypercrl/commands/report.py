"""Write a report page with tables and figures from runs.

usage: hypercrl report RUN… [--out FOLDER] [--plugin FILE]

RUN is a run's folder, or a folder that holds runs. The page works offline; tables are also
written as Markdown, LaTeX and CSV, figures as PNG and SVG.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.reading import show


@dataclass(frozen=True)
class Options(PluginOptions):
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]
    """Folders of runs, or folders that hold them."""
    out: Path = Path("report")
    """The report's folder."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl report", doc=__doc__)
    from rich.console import Console

    from hypercrl.analysis.report import progress_bar, write_report
    from hypercrl.analysis.summary import summarise
    from hypercrl.experiment.code import this_code

    console, current = Console(), this_code().fingerprint
    summarise(options.runs, console, current=current)
    with progress_bar(console) as progress:
        page = write_report(options.runs, options.out, current=current, progress=progress)
    line = f"The report is {show(page)}."
    console.print(line, highlight=False, soft_wrap=True, markup=False)
