"""Watch a run's controller, or a suite under random actions, as a video.

usage: hypercrl play RUN|SUITE [--task I] [--video FILE] [--random] [--seed N] [--plugin MODULE]

RUN is the folder of a run. With --random, SUITE is the name of a suite, so that it can be seen
before anything is trained. Tasks count from 1.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError
from hypercrl.registry import load_plugin


@dataclass(frozen=True)
class Options(PluginOptions):
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|SUITE")]
    """A run's folder, or with --random the name of a suite."""
    task: int = 1
    """Which task to play, counted from 1."""
    video: Path = Path("play.mp4")
    """Where the video goes."""
    random: bool = False
    """Random actions instead of a learned controller."""
    seed: int = 0
    """Seed of the start pose and of random actions."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl play", doc=__doc__)
    for plugin in options.plugin:
        load_plugin(plugin)
    total = _record(options)
    print(f"Task {options.task}: return {total:.2f}. The video is {options.video}.")


def _record(options: Options) -> float:
    from hypercrl.experiment.config import build_suite
    from hypercrl.experiment.controller import load
    from hypercrl.experiment.video import record_random, record_run

    if not options.random:
        run = Path(options.source)
        load(run).check_learnt(options.task)
        return record_run(run, options.task - 1, options.video, seed=options.seed)
    suite = build_suite(options.source)
    if not 1 <= options.task <= len(suite.tasks):
        raise UserError(f"The suite '{suite.name}' has the tasks 1 to {len(suite.tasks)}.")
    return record_random(suite, options.task - 1, options.video, seed=options.seed)
