"""Suites so small that a whole run takes seconds, and some that go wrong on demand.

Two point masses on a line, one light and one heavy. While the variable TOY_TROUBLE is set, the
suites `toy-raises`, `toy-nan` and `toy-killed` misbehave, each in its own way, and the second
task of `toy-slow` takes its time, so that a run can be interrupted there; with TOY_GATE it waits
until the file of that name is there. Without it all of them give the same numbers as `toy`.
"""

import dataclasses
import functools
import os
import signal
import time

import gymnasium
import jax.numpy as jnp
import numpy as np

from hypercrl import register_suite, suite_from_envs, suites
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.model import Network
from hypercrl.experiment import testing
from hypercrl.learning.training import Training
from hypercrl.planning.icem import ICEM
from hypercrl.presets import Preset, Schedule

MASSES = (1.0, 2.0)
EPISODE_LENGTH = 10
TROUBLE_STEP = 5
SLOW_SECONDS = 0.2  # a step
# What every run measures anew though it depends on the task alone: a few episodes are enough here.
testing.RANDOM_EPISODES, testing.PROBE_EPISODES = 2, 4

PRESET = Preset(
    schedule=Schedule(
        random_episodes=1, steps_per_task=20, update_every=10, updates=3, eval_episodes=1
    ),
    network=Network(hidden=(8,)),
    hypernet=ChunkedHypernet(hidden=(4,), chunk_size=50, chunk_embedding_dim=2),
    training=Training(batch_size=8),
    planners=(ICEM(horizon=3, num_samples=8, num_iterations=1, num_elites=4, num_kept=2),),
    methods={"hypercrl": {"lookahead": False}},
)


class PointMass(gymnasium.Env):
    """Position and velocity of a mass that is pushed towards the origin."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, mass: float, trouble: str):
        self.mass = mass
        self.trouble = trouble if "TOY_TROUBLE" in os.environ else ""
        self.state = np.zeros(2, np.float32)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.steps = 0
        return self.state.copy(), {}

    def step(self, action):
        self.steps += 1
        position, velocity = self.state
        velocity = velocity + 0.3 * float(action[0]) / self.mass
        self.state = np.array([position + 0.3 * velocity, velocity], np.float32)
        if self.trouble == "slow" and self.mass == MASSES[1]:
            time.sleep(SLOW_SECONDS)
        if self.steps == TROUBLE_STEP:
            self._misbehave()
        return self.state.copy(), 0.0, False, False, {}

    def get_state(self):
        return {"state": self.state.copy(), "steps": np.array(self.steps)}

    def set_state(self, state):
        self.state, self.steps = np.array(state["state"]), int(state["steps"])

    def _misbehave(self):
        if self.trouble == "raises":
            raise RuntimeError("the motor is unplugged")
        if self.trouble == "nan":
            self.state[:] = np.nan
        if self.trouble == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "slow" and self.mass == MASSES[1]:
            while not os.path.exists(os.environ.get("TOY_GATE", "/")):
                time.sleep(SLOW_SECONDS)


def reward(state, action, next_state):
    return 1.0 - jnp.abs(next_state[0])


def _register(name: str, trouble: str) -> None:
    envs = [functools.partial(PointMass, mass, trouble) for mass in MASSES]
    suite = suite_from_envs(name, envs, reward, episode_length=EPISODE_LENGTH, preset=PRESET)
    register_suite(suite)
    # What runs on a suite have in common is drawn from its name, which is the same for all here.
    toy = dataclasses.replace(suite, name="toy")
    suites.register(name)(lambda num_tasks=2: toy)


_register("toy", "")
for _kind in ("raises", "nan", "killed", "slow"):
    _register(f"toy-{_kind}", _kind)
