"""Watch a run's controller, or a suite under random actions, as a video.

usage: hypercrl play RUN|SUITE [--task I] [--video FILE] [--random] [--seed N] [--plugin MODULE]

RUN is the folder of a run. With --random, SUITE is the name of a suite, so that it can be seen
before anything is trained. Tasks count from 1.
"""

import os
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
    video: Path | None = None
    """Where the video goes; play.mp4, or the next name that is free, if not given."""
    random: bool = False
    """Random actions instead of a learned controller."""
    seed: int = 0
    """Seed of the start pose and of random actions."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl play", doc=__doc__)
    for plugin in options.plugin:
        load_plugin(plugin)
    video = options.video or _free_name()
    total = _record(options, video)
    print(f"Task {options.task}: return {total:.2f}. The video is {video}.")


def _free_name() -> Path:
    names = (Path(f"play{number}.mp4") for number in ("", *range(2, 10_000)))
    return next(name for name in names if not os.path.lexists(name))


def _record(options: Options, video: Path) -> float:
    from hypercrl.experiment.config import build_suite
    from hypercrl.experiment.controller import load
    from hypercrl.experiment.video import record_random, record_run

    if not options.random:
        run = Path(options.source)
        load(run).check_learnt(options.task)
        return record_run(run, options.task - 1, video, seed=options.seed)
    suite = build_suite(options.source)
    if not 1 <= options.task <= len(suite.tasks):
        raise UserError(f"The suite '{suite.name}' has the tasks 1 to {len(suite.tasks)}.")
    return record_random(suite, options.task - 1, video, seed=options.seed)
