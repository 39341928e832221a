"""Watch a run's controller, a trained one, or a suite under random actions, as a video.

usage: hypercrl play RUN|SUITE [--task TASK] [--video FILE] [--trained] [--random] [OPTIONS]

RUN is the folder of a run. With --trained, SUITE is the name of a suite that a trained
controller comes with; with --random any suite, so that it can be seen before anything is
trained. Tasks count from 1, and names work too.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError

if TYPE_CHECKING:
    from hypercrl.experiment.controller import Controller
    from hypercrl.types import Suite


@dataclass(frozen=True)
class Watching(PluginOptions):
    """What to watch."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|SUITE")]
    """A run's folder, or with --trained or --random the name of a suite."""
    task: str = "1"
    """Which task to play, counted from 1 or by its name."""
    trained: bool = False
    """The trained controller that comes with the suite."""
    random: bool = False
    """Random actions instead of a learned controller."""
    seed: int = 0
    """Seed of the start pose and of random actions."""


@dataclass(frozen=True)
class Options(Watching):
    video: Path | None = None
    """Where the video goes; play.mp4, or the next name that is free, if not given."""
    episodes: int = 1
    """How many episodes to show."""
    speed: float = 1.0
    """How many times faster than in reality."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl play", doc=__doc__)
    from hypercrl.experiment.video import record_controller, record_random

    video = options.video or _free_name()
    how = {"seed": options.seed, "episodes": options.episodes, "speed": options.speed}
    if options.random:
        suite, task = random_choice(options)
        totals = record_random(suite, task, video, **how)
    else:
        controller, task = controller_choice(options)
        totals = record_controller(controller, task, video, **how)
    said = ", ".join(f"{total:.2f}" for total in totals)
    print(f"Task {task + 1}: return {said}. The video is {video}.")


def _free_name() -> Path:
    names = (Path(f"play{number}.mp4") for number in ("", *range(2, 10_000)))
    return next(name for name in names if not os.path.lexists(name))


def controller_choice(options: Watching) -> "tuple[Controller, int]":
    """The controller that was asked for, and the place of the task."""
    from hypercrl.experiment.controller import load
    from hypercrl.experiment.shipped import find

    if options.trained and options.random:
        raise UserError("--trained and --random exclude each other.")
    controller = load(find(options.source) if options.trained else Path(options.source))
    return controller, controller.find(options.task)


def random_choice(options: Watching) -> "tuple[Suite, int]":
    """The suite that was asked for, and the place of the task."""
    from hypercrl.experiment.config import build_suite

    if options.trained:
        raise UserError("--trained and --random exclude each other.")
    suite = build_suite(options.source)
    names = [task.name for task in suite.tasks]
    if options.task in names:
        return suite, names.index(options.task)
    if not options.task.isdigit() or not 1 <= int(options.task) <= len(names):
        raise UserError(
            f"The suite '{suite.name}' has the tasks 1 to {len(names)}, not '{options.task}'."
        )
    return suite, int(options.task) - 1
