"""Show the suites, methods, hypernetworks and planners, or the runs in a folder."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError, printable
from hypercrl.reading import show
from hypercrl.registry import (
    hypernets,
    learners,
    planners,
    regularisers,
    suites,
)


@dataclass(frozen=True)
class Options(PluginOptions):
    what: Annotated[
        Literal["all", "suites", "methods", "hypernets", "regularisers", "planners", "runs"],
        tyro.conf.Positional,
    ] = "all"
    """What to show."""
    folder: Path = Path("runs")
    """Where the runs are."""


def run(args: list[str]) -> None:
    from rich.console import Console

    options = parse_flags(Options, args, prog="hypercrl list", doc=__doc__)
    console = Console()
    if options.what == "runs":
        _list_runs(options.folder, console)
        return
    registries = {
        "suites": suites,
        "methods": learners,
        "hypernets": hypernets,
        "regularisers": regularisers,
        "planners": planners,
    }
    for title, registry in registries.items():
        if options.what in ("all", title):
            _list_registry(title, registry, console)
        if registry is suites and options.what in ("all", title):
            _list_trained(console)


def _list_registry(title, registry, console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title.capitalize(), title_justify="left", box=None, show_header=False)
    for name in registry.names():
        try:
            summary = _summary(registry.get(name))
        except UserError as error:  # an installed package that does not work
            summary = str(error)
        table.add_row(Text(printable(name), "bold"), Text(summary))
    console.print(table)
    console.print()


def _list_trained(console) -> None:
    from hypercrl.experiment import shipped

    names = ", ".join(shipped.names())
    console.print(f"`hypercrl play SUITE --trained` shows {names} at once.", highlight=False)
    console.print()


def _summary(factory) -> str:
    """The first sentence of the file that defines the variant."""
    text = sys.modules[factory.__module__].__doc__ or factory.__doc__ or ""
    return printable(" ".join(text.strip().split("\n\n")[0].split()))


def _list_runs(folder: Path, console) -> None:
    from rich.table import Table
    from rich.text import Text

    from hypercrl.experiment.progress import read_progress
    from hypercrl.experiment.run_folder import find_runs

    found = find_runs([folder])
    table = Table(box=None, header_style="bold")
    for column in ("run", "suite", "method", "seed", "task", "steps", "last return", "state"):
        table.add_column(column, justify="right" if column in ("steps", "last return") else "left")
    unreadable = []
    for path in found:
        try:
            table.add_row(*map(Text, read_progress(path).row(folder)))
        except UserError as error:
            table.add_row(Text(show(path.relative_to(folder))), *[""] * 6, "unreadable")
            unreadable.append(str(error))
    console.print(table)
    for sentence in unreadable:
        console.print(printable(sentence), highlight=False, soft_wrap=True, markup=False)
