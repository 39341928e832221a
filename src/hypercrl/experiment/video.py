"""Videos of a controller at work, or of a suite under random actions."""

import contextlib
import math
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np

from hypercrl import writing
from hypercrl.errors import UserError, describe, in_one_sentence
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import Controller, load
from hypercrl.experiment.episode import Step, run_episode
from hypercrl.experiment.run_folder import video_name
from hypercrl.reading import show
from hypercrl.types import Suite

FRAMES_AHEAD = 10  # still frames after an episode, so that the last pose can be seen
USUAL_RATE = 10.0  # frames a second where an environment does not say its own
MAX_RATE = 60.0  # frames a second; a quicker video leaves some out
ROOM_BYTES = 1_000_000  # more than most videos take; a disk without it is as good as full
SMOOTH = 2.0  # exponent of the random actions: white noise would only make an arm tremble


Act = Callable[[], Step]


class Filming:
    """Videos of a run while it goes on: each task when just learnt, and all of them at the end.

    A machine that cannot draw keeps its results: what went wrong is only remembered.
    """

    def __init__(self, run: Path, num_tasks: int):
        self._run, self._num_tasks = run, num_tasks
        self.problem = ""

    def __call__(self, after: int) -> None:
        """Film what is due when task `after` has been learnt, unless it was filmed before."""
        is_last = after == self._num_tasks - 1
        try:
            for task in range(self._num_tasks) if is_last else [after]:
                path = self._run / video_name(task, after)
                if not path.exists():
                    writing.make_folder(path.parent)
                    record_run(self._run, task, path)
        except Exception as error:
            traceback.print_exc()
            self.problem = f"No video could be made: {in_one_sentence(error)}"


def record_run(run: Path, task: int, path: Path) -> float:
    """One episode of a task under a run's controller; returns the episode's return."""
    return record_controller(load(run), task, path)[0]


def record_controller(
    controller: Controller,
    task: int,
    path: Path,
    *,
    seed: int = 0,
    episodes: int = 1,
    speed: float = 1.0,
) -> list[float]:
    """Episodes of a task under a controller, one after another; returns their returns."""
    require_free(path)
    actor, act = controlled(controller, task, seed=seed, render_mode="rgb_array")
    return _record(actor, act, path, episodes, speed)


def record_random(
    suite: Suite, task: int, path: Path, *, seed: int = 0, episodes: int = 1, speed: float = 1.0
) -> list[float]:
    """Episodes under smooth random actions, to see a suite before training."""
    require_free(path)
    actor, act = exploring(suite, task, seed=seed, render_mode="rgb_array")
    return _record(actor, act, path, episodes, speed)


def controlled(
    controller: Controller, task: int, *, seed: int, render_mode: str | None = None
) -> tuple[Actor, Act]:
    """A task's environment, and what takes it a step further under a controller."""
    model = controller.model(task)  # an unlearnt task is refused before anything is rendered
    actor = Actor(
        controller.suite.tasks[task],
        controller.suite.spec,
        controller.config.planner,
        seed=seed,
        purpose=("play", task),
        render_mode=render_mode,
    )
    return actor, lambda: actor.plan(model, controller.value(task))


def exploring(
    suite: Suite, task: int, *, seed: int, render_mode: str | None = None
) -> tuple[Actor, Act]:
    """The same under smooth random actions."""
    actor = Actor(
        suite.tasks[task],
        suite.spec,
        seed=seed,
        purpose=("play", task),
        exploration_beta=SMOOTH,
        render_mode=render_mode,
    )
    return actor, actor.explore


def _record(actor: Actor, act: Act, path: Path, episodes: int, speed: float) -> list[float]:
    if episodes < 1:
        raise UserError(f"A video shows at least 1 episode, not {episodes}.")
    if not speed > 0:
        raise UserError(f"A video's speed must be more than 0, not {speed}.")
    frames, totals = [], []

    def act_and_film() -> Step:
        step = act()
        frames.append(_picture(actor))
        return step

    with contextlib.closing(actor):
        for _ in range(episodes):
            actor.begin()
            frames.append(_picture(actor))
            totals.append(run_episode(act_and_film).total)
            frames += [frames[-1]] * FRAMES_AHEAD
        rate = speed * actor.env.metadata.get("render_fps", USUAL_RATE)
    every = max(1, math.ceil(rate / MAX_RATE))
    write_video(path, frames[::every], fps=rate / every)
    return totals


def _picture(actor: Actor) -> np.ndarray:
    """What the environment looks like now; anybody's may lack a part that draws it, or all."""
    name = actor.task.name
    try:
        picture: Any = actor.env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise UserError(f"Task '{name}' cannot be drawn: {describe(error)}.") from error
    except NotImplementedError:
        picture = None
    if np.ndim(picture) != 3:
        raise UserError(
            f"Task '{name}' cannot be drawn: its environment's `render` must return a picture "
            "[height, width, 3] where it was made with the render mode 'rgb_array'."
        )
    return picture


def require_free(path: Path) -> None:
    """Complain before an episode is played, not after, where its video could not be kept."""
    if path.suffix != ".mp4":
        raise UserError(f"The video must be an .mp4 file, unlike '{show(path)}'.")
    if os.path.lexists(path):
        raise UserError(f"There is a '{show(path)}' already; name another file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writing.write_new(path, bytes(ROOM_BYTES))
        path.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"The video {show(path)} cannot be written: {reason}.") from error


def write_video(path: Path, frames: list, fps: float) -> None:
    """H.264 in a form that every browser plays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, _ = np.shape(frames[0])
    # The encoder is another program, which must not take a name for an option or follow a link.
    unfinished = path.resolve().with_name(f"{path.stem}{writing.PARTIAL}.mp4")
    os.close(writing.create(unfinished))
    try:
        with warnings.catch_warnings():
            # It is started at once after the fork that JAX warns of.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            rate: Any = fps  # the library asks for a whole number and takes any
            encoder = imageio_ffmpeg.write_frames(str(unfinished), (width, height), fps=rate)
            encoder.send(None)
            for frame in frames:
                encoder.send(np.ascontiguousarray(frame, np.uint8))
            encoder.close()
        os.replace(unfinished, path)
    except Exception as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"The video {show(path)} cannot be written: {describe(error)}.") from error
