"""Runs an exported planner: needs Python, NumPy and JAX, and nothing of hypercrl.

    python run.py            20 control steps at 10 Hz with random observations, and their times

Copy the class `Policy` into your robot's program:

    policy = Policy("this/folder")
    policy.warm_up()
    action = policy.act(observation)
"""

import json
import sys
import time
import zlib
from pathlib import Path

import jax
import numpy as np
from jax import export


class Policy:
    """One task's planner, with the models and weights that it plans with."""

    def __init__(self, folder):
        folder = Path(folder)
        self.about = json.loads((folder / "about.json").read_text())
        content = bytearray((folder / "planner.jax").read_bytes())
        self._step = jax.jit(export.deserialize(content).call)
        with np.load(folder / "planner_state.npz") as start:
            self._start = [start[f"state_{i}"] for i in range(len(start.files))]
        self._seed, self._number = self.about["seed"], 0
        self.reset()

    def reset(self, seed=None):
        """Forget the plan under way; with a seed, draw the same again."""
        self._state = list(self._start)
        if seed is not None:
            self._seed, self._number = seed, 0

    def warm_up(self):
        """Compile, so that the first action is not late."""
        observation = np.zeros(self.about["state_dim"], np.float32)
        jax.block_until_ready(self._step(observation, np.zeros(2, np.uint32), *self._start))

    def act(self, observation):
        """The next action for an observation: `state_dim` finite numbers."""
        observation = np.asarray(observation, np.float32)
        if observation.shape != (self.about["state_dim"],) or not np.isfinite(observation).all():
            raise ValueError(f"An observation must be {self.about['state_dim']} finite numbers.")
        action, *state = self._step(observation, self._key(), *self._state)
        # Handed back as JAX's own arrays, they would be tied to a device, and the function be
        # compiled once more, in the middle of the second step.
        self._state = [np.asarray(array) for array in state]
        self._number += 1
        return np.asarray(action)

    def _key(self):
        """The same numbers that hypercrl draws for this action of this run."""
        entropy = [self._seed, zlib.crc32(b"act"), 1, self._number]
        return np.random.SeedSequence(entropy).generate_state(2, np.uint32)


def main(folder, num_steps=20, period=0.1):
    policy = Policy(folder)
    policy.warm_up()
    rng, times, missed = np.random.default_rng(0), [], 0
    due = time.monotonic()
    for _ in range(num_steps):
        start = time.monotonic()
        policy.act(0.1 * rng.standard_normal(policy.about["state_dim"]))
        times.append(time.monotonic() - start)
        due += period
        missed += time.monotonic() > due
        time.sleep(max(0.0, due - time.monotonic()))
    median, slowest = np.median(times), np.max(times)
    print(
        f"{num_steps} steps of {period:g} s: {missed} missed; an action took {median:.4f} s, ",
        end="",
    )
    print(f"{slowest:.4f} s at most.")
    return missed


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent) > 0)
