"""Watch a controller live in MuJoCo's interactive viewer, and push the robot with the mouse.

usage: hypercrl view RUN|SUITE [--task TASK] [--trained] [--random] [--seed N] [--plugin FILE]

As `hypercrl play`, but in a window, in real time and until it is closed. Needs a screen.
"""

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypercrl.commands.arguments import parse_flags
from hypercrl.commands.play import Watching, controller_choice, random_choice
from hypercrl.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypercrl.experiment.actor import Actor


@dataclass(frozen=True)
class Options(Watching):
    """All that there is to choose is what to watch."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl view", doc=__doc__)
    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        raise UserError("There is no screen to open a window on; `hypercrl play` makes a video.")
    from hypercrl.experiment.video import controlled, exploring

    if options.random:
        actor, act = exploring(*random_choice(options), seed=options.seed)
    else:
        actor, act = controlled(*controller_choice(options), seed=options.seed)
    from mujoco import viewer

    with contextlib.closing(actor):
        watch(actor, act, viewer.launch_passive)


def watch(actor: "Actor", act: "Callable[[], Any]", launch: "Callable[..., Any]") -> None:
    """Step a simulation in real time for as long as its window is open."""
    from hypercrl.experiment.video import USUAL_RATE

    env: Any = actor.env.unwrapped
    if not (hasattr(env, "model") and hasattr(env, "data")):
        raise UserError(f"The environment of task '{actor.task.name}' is not MuJoCo's.")
    period = 1 / env.metadata.get("render_fps", USUAL_RATE)
    actor.begin()
    with launch(env.model, env.data) as window:
        due = time.monotonic()
        while window.is_running():
            act()
            window.sync()
            due = max(due + period, time.monotonic() - period)
            time.sleep(max(0.0, due - time.monotonic()))
