"""Two tiny suites for tests of everything around the learning: a noisy point on a line.

`tiny` can be saved within an episode, `tiny-opaque` cannot. A run takes a fraction of a second
once its functions are compiled. They are registered only while a test asks for them.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np

from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Encoding
from hypercrl.experiment import checkpoint, testing
from hypercrl.experiment.config import RunConfig, resolve
from hypercrl.experiment.run_folder import CHECKPOINT
from hypercrl.learning.training import Training
from hypercrl.planning.icem import ICEM
from hypercrl.presets import Preset, Schedule
from hypercrl.registry import suites
from hypercrl.types import Spec, Suite, Task

SPEC = Spec(
    state_dim=2,
    action_dim=1,
    action_low=(-1.0,),
    action_high=(1.0,),
    episode_length=5,
    encoding=Encoding.differences(2),
)
PRESET = Preset(
    schedule=Schedule(
        random_episodes=2,
        steps_per_task=12,
        update_every=6,
        updates=3,
        eval_every=6,
        eval_episodes=2,
    ),
    network=Network(hidden=(6,), scale_targets=True),
    hypernet=FullHypernet(hidden=(4,)),
    training=Training(batch_size=4),
    planners=(ICEM(horizon=3, num_samples=8, num_iterations=2, num_elites=3, num_kept=1),),
)
# How the tasks differ: every second one goes the other way.
GAINS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.7, -0.7, 1.5, -1.5, 1.2, -1.2)
NOISE = 0.05
LIMIT = 0.9  # beyond it the episode terminates
# What every run measures anew though it depends on the task alone: a few episodes are enough here.
FEW_EPISODES = {"RANDOM_EPISODES": 2, "PROBE_EPISODES": 4}


class OpaquePoint(gymnasium.Env):
    """Position and velocity under a push, with noise from the environment's own generator."""

    def __init__(self, gain: float = 1.0, render_mode: str | None = None):
        self.gain = gain
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.state = np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(scale=0.3, size=2)
        return self.state.astype(np.float32), {}

    def step(self, action):
        push = self.gain * float(np.clip(action, -1, 1)[0]) + NOISE * self.np_random.normal()
        position, velocity = self.state
        self.state = np.array([position + 0.2 * velocity, 0.9 * velocity + 0.3 * push])
        terminated = bool(abs(self.state[0]) > LIMIT)
        return self.state.astype(np.float32), 0.0, terminated, False, {}


class Point(OpaquePoint):
    """The same, and it tells its state, its generator's included."""

    def get_state(self):
        generator = self.np_random.bit_generator.state["state"]
        numbers = {name: value.to_bytes(16, "little") for name, value in generator.items()}
        return {
            "point": self.state,
            **{name: np.frombuffer(value, np.uint8) for name, value in numbers.items()},
        }

    def set_state(self, state):
        self.state = np.array(state["point"])
        numbers = {n: int.from_bytes(state[n].tobytes(), "little") for n in ("state", "inc")}
        generator = self.np_random.bit_generator
        generator.state = {**generator.state, "state": numbers}


def reward(state, action, next_state):
    """Stay at the origin."""
    return -jnp.sum(next_state**2) - 0.01 * jnp.sum(action**2)


def make_suite(
    name: str, env: Callable[..., gymnasium.Env], num_tasks: int = 2, reward: Any = reward
) -> Suite:
    """A suite of points, or of whatever takes a gain and a render mode."""
    tasks = tuple(
        Task(f"gain {gain:g}", functools.partial(env, gain), reward) for gain in GAINS[:num_tasks]
    )
    return Suite(name, SPEC, tasks, {"tiny": PRESET})


def _set(numbers: dict[str, int]) -> None:
    for name, number in numbers.items():
        setattr(testing, name, number)


@contextlib.contextmanager
def registered(**others) -> Iterator[None]:
    """Make the tiny suites known, and others, or others instead, given as name=factory."""
    suites.names()  # loads the built-in ones, which must stay afterwards
    known = dict(suites._factories)
    suites.register("tiny")(lambda num_tasks=2: make_suite("tiny", Point, num_tasks))
    suites.register("tiny-opaque")(
        lambda num_tasks=2: make_suite("tiny-opaque", OpaquePoint, num_tasks)
    )
    suites._factories.update(others)
    many = {name: getattr(testing, name) for name in FEW_EPISODES}
    _set(FEW_EPISODES)
    try:
        yield
    finally:
        _set(many)
        suites._factories.clear()
        suites._factories.update(known)


def configure(
    suite: str = "tiny", method: str = "finetune", seed: int = 0, num_tasks: int = 2, **schedule
) -> RunConfig:
    """A run of two tasks, or more, with parts of its schedule changed."""
    config = resolve(suite, method, seed=seed, num_tasks=num_tasks)
    return replace(config, schedule=replace(config.schedule, **schedule))


def assert_same_run(one: Path, other: Path) -> None:
    """The same metrics, byte for byte, and the same state at the end, bit for bit."""
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    first, second = (checkpoint.load(folder / CHECKPOINT)[0] for folder in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
