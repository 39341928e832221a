"""Show whether the tasks of a suite conflict: every task's model on every task.

usage: hypercrl conflict RUN… [--episodes N] [--plugin FILE]

RUN is the folder of a finished run, best of a method that keeps every task's model apart.
Prints Markdown tables of returns and one-step model errors, averaged over the runs.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError
from hypercrl.threads import one_thread


@dataclass(frozen=True)
class Options(PluginOptions):
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]
    """Folders of finished runs."""
    episodes: int = 5
    """Episodes behind each cell and run."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl conflict", doc=__doc__)
    if options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}.")
    os.environ.update(one_thread(os.environ))
    from hypercrl.experiment.conflict import measure

    print(measure(list(options.runs), options.episodes).markdown())
