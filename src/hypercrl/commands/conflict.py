"""Show whether the tasks of a suite conflict: every task's model on every task.

usage: hypercrl conflict RUN… [--episodes N] [--plugin MODULE]

RUN is the folder of a finished run, best of a method that keeps every task's model apart.
Prints Markdown tables of returns and one-step model errors, averaged over the runs.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hypercrl.commands.arguments import parse_flags, print_usage
from hypercrl.registry import load_plugin
from hypercrl.threads import one_thread


@dataclass(frozen=True)
class Options:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of finished runs."""
    episodes: int = 5
    """Episodes behind each cell and run."""
    plugin: tuple[str, ...] = ()
    """Modules or files that register suites, methods or planners of their own."""


def run(args: list[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print_usage(__doc__, asked=bool(args))
        return
    options = parse_flags(Options, args, prog="hypercrl conflict")
    for plugin in options.plugin:
        load_plugin(plugin)
    os.environ.update(one_thread(os.environ))
    from hypercrl.experiment.conflict import measure

    print(measure(list(options.runs), options.episodes).markdown())
