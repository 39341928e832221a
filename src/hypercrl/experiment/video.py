"""Videos of a controller at work, or of a suite under random actions."""

import contextlib
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from hypercrl import writing
from hypercrl.errors import UserError, describe, in_one_sentence
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import load
from hypercrl.experiment.episode import Step, run_episode
from hypercrl.experiment.run_folder import video_name
from hypercrl.reading import show
from hypercrl.types import Suite

FRAMES_AHEAD = 10  # still frames at the end, so that the last pose can be seen
ROOM_BYTES = 1_000_000  # more than most videos take; a disk without it is as good as full
SMOOTH = 2.0  # exponent of the random actions: white noise would only make an arm tremble


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


def record_run(run: Path, task: int, path: Path, *, seed: int = 0) -> float:
    """One episode of a task under a run's controller; returns the episode's return."""
    require_free(path)
    controller = load(run)
    model = controller.model(task)  # an unlearnt task is refused before anything is rendered
    actor = Actor(
        controller.suite.tasks[task],
        controller.suite.spec,
        controller.config.planner,
        seed=seed,
        purpose=("play", task),
        render_mode="rgb_array",
    )
    return _record(actor, lambda: actor.plan(model, controller.value(task)), path)


def record_random(suite: Suite, task: int, path: Path, *, seed: int = 0) -> float:
    """One episode under smooth random actions, to see a suite before training."""
    require_free(path)
    actor = Actor(
        suite.tasks[task],
        suite.spec,
        seed=seed,
        purpose=("play", task),
        exploration_beta=SMOOTH,
        render_mode="rgb_array",
    )
    return _record(actor, actor.explore, path)


def _record(actor: Actor, act: Callable[[], Step], path: Path) -> float:
    with contextlib.closing(actor):
        actor.begin()
        frames = [actor.env.render()]

        def act_and_film() -> Step:
            step = act()
            frames.append(actor.env.render())
            return step

        total = run_episode(act_and_film).total
        write_video(path, frames, fps=actor.env.metadata["render_fps"])
    return total


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


def write_video(path: Path, frames: list, fps: int) -> None:
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
            encoder = imageio_ffmpeg.write_frames(str(unfinished), (width, height), fps=fps)
            encoder.send(None)
            for frame in frames + [frames[-1]] * FRAMES_AHEAD:
                encoder.send(np.ascontiguousarray(frame, np.uint8))
            encoder.close()
        os.replace(unfinished, path)
    except Exception as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"The video {show(path)} cannot be written: {describe(error)}.") from error
