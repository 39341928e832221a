"""Videos of a controller at work, or of a suite under random actions."""

import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from hypercrl.experiment import streams
from hypercrl.experiment.controller import load
from hypercrl.experiment.store import video_name
from hypercrl.types import Spec, Suite

FRAMES_AHEAD = 10  # still frames at the end, so that the last pose can be seen


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
                    record_run(self._run, task, path)
        except Exception as error:
            traceback.print_exc()
            first = next(iter(str(error).splitlines()), type(error).__name__)
            self.problem = f"No video could be made: {first}"


def record_run(run: Path, task: int, path: Path, *, seed: int = 0) -> float:
    """One episode of a task under a run's controller; returns the episode's return."""
    controller = load(run)
    controller.model(task)  # an unlearnt task is refused before anything is rendered
    return _record(
        controller.suite, task, lambda state: controller.act(state, task=task), path, seed
    )


def record_random(suite: Suite, task: int, path: Path, *, seed: int = 0) -> float:
    """One episode under smooth random actions, to see a suite before training."""
    actions = _random_actions(suite.spec, streams.generator(seed, "play", task))
    return _record(suite, task, lambda state: next(actions), path, seed)


def _record(suite: Suite, task: int, act, path: Path, seed: int) -> float:
    env = suite.tasks[task].make("rgb_array")
    try:
        state, _ = env.reset(seed=streams.integer(seed, "play", task))
        frames, total, done = [env.render()], 0.0, False
        while not done:
            state, reward, terminated, truncated, _ = env.step(act(state))
            total += float(reward)
            done = terminated or truncated
            frames.append(env.render())
        write_video(path, frames, fps=env.metadata["render_fps"])
    finally:
        env.close()
    return total


def write_video(path: Path, frames: list, fps: int) -> None:
    """H.264 in a form that every browser plays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, _ = np.shape(frames[0])
    with warnings.catch_warnings():
        # The encoder is another program, started at once after the fork that JAX warns of.
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        encoder = imageio_ffmpeg.write_frames(str(path), (width, height), fps=fps)
        encoder.send(None)
        for frame in frames + [frames[-1]] * FRAMES_AHEAD:
            encoder.send(np.ascontiguousarray(frame, np.uint8))
        encoder.close()


def _random_actions(spec: Spec, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A bounded random walk: white noise would only make an arm tremble."""
    low, high = np.array(spec.action_low), np.array(spec.action_high)
    action = (low + high) / 2
    while True:
        action = np.clip(
            0.8 * action + 0.4 * (high - low) / 2 * rng.normal(size=low.shape), low, high
        )
        yield action.astype(np.float32)
