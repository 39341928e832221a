"""The current task's transitions, on the host, at a fixed capacity.

Fixed-size arrays mean that a training session compiled once serves every later one. Every
fourth stretch of transitions is held out (25 %) to report the validation error; which one is a
matter of its rows alone, so nothing about the split has to be stored.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from hypercrl.errors import UserError
from hypercrl.types import Spec, Transitions

HOLD_OUT = 4  # one stretch in four is for validation
# Consecutive rows that are held out together. Neighbours in time are almost copies of each other,
# so a single row between two that were trained on would say little about what was learnt.
STRETCH = 20  # control steps
PERIOD = HOLD_OUT * STRETCH


class Buffer:
    """Replay buffer D_t of Algorithm 1, emptied at every task switch."""

    def __init__(self, spec: Spec, capacity: int):
        self.capacity = capacity
        self.count = 0
        self._states = np.zeros((capacity, spec.state_dim), np.float32)
        self._actions = np.zeros((capacity, spec.action_dim), np.float32)
        self._next_states = np.zeros((capacity, spec.state_dim), np.float32)

    def add(self, state: np.ndarray, action: np.ndarray, next_state: np.ndarray) -> None:
        if self.count == self.capacity:
            raise UserError(f"The buffer is full: it was sized for {self.capacity} transitions.")
        self._states[self.count] = state
        self._actions[self.count] = action
        self._next_states[self.count] = next_state
        self.count += 1

    def clear(self) -> None:
        """Forget the data, also in memory: nothing of an old task survives."""
        self.count = 0
        for array in (self._states, self._actions, self._next_states):
            array[:] = 0.0

    def transitions(self) -> Transitions:
        """All rows, copied to the device, with the number that are data."""
        return Transitions(
            jnp.array(self._states),
            jnp.array(self._actions),
            jnp.array(self._next_states),
            jnp.array(self.count, jnp.int32),
        )

    def get_state(self) -> dict[str, np.ndarray]:
        """The data rows as plain arrays, for a checkpoint."""
        return {
            "states": self._states[: self.count],
            "actions": self._actions[: self.count],
            "next_states": self._next_states[: self.count],
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.clear()
        self.count = len(state["states"])
        self._states[: self.count] = state["states"]
        self._actions[: self.count] = state["actions"]
        self._next_states[: self.count] = state["next_states"]


def is_training(rows: Int[Array, "*rows"]) -> Bool[Array, "*rows"]:
    """Whether rows are trained on: the last stretch of every four is held out."""
    return ~_is_held_out(rows)


def num_training(count: Int[Array, ""]) -> Int[Array, ""]:
    """How many of `count` rows are for training."""
    whole, rest = count // PERIOD, count % PERIOD
    return whole * (PERIOD - STRETCH) + jnp.minimum(rest, PERIOD - STRETCH)


def training_row(i: Int[Array, "*rows"]) -> Int[Array, "*rows"]:
    """The row of the i-th training transition."""
    return i + STRETCH * (i // (PERIOD - STRETCH))


def held_out(num_rows: int) -> Int[np.ndarray, "held_out"]:
    """The rows among the first `num_rows` that are held out."""
    return np.flatnonzero(_is_held_out(np.arange(num_rows)))


def _is_held_out(rows: Any) -> Any:
    return (rows // STRETCH) % HOLD_OUT == HOLD_OUT - 1


def sample_rows(
    key: PRNGKeyArray, count: Int[Array, ""], batch_size: int
) -> Int[Array, "batch_size"]:
    """Rows of a training batch, drawn uniformly with replacement."""
    return training_row(jax.random.randint(key, (batch_size,), 0, num_training(count)))
