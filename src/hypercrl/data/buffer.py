"""The current task's transitions, on the host, at a fixed capacity.

Fixed-size arrays mean that a training session compiled once serves every later one. Every
fourth transition is held out (25 %) to report the validation error; which one is a matter of
its row alone, so nothing about the split has to be stored.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from hypercrl.errors import UserError
from hypercrl.types import Spec, Transitions

HOLD_OUT = 4  # one transition in four is for validation


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


def num_training(count: Int[Array, ""]) -> Int[Array, ""]:
    """How many of `count` rows are for training."""
    return count - count // HOLD_OUT


def training_row(i: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """The row of the i-th training transition: rows 3, 7, 11, ... are held out."""
    return i + i // (HOLD_OUT - 1)


def held_out(num_rows: int) -> np.ndarray:
    """The rows among the first `num_rows` that are held out."""
    return np.arange(HOLD_OUT - 1, num_rows, HOLD_OUT)


def sample_rows(
    key: PRNGKeyArray, count: Int[Array, ""], batch_size: int
) -> Int[Array, "batch_size"]:
    """Rows of a training batch, drawn uniformly with replacement."""
    return training_row(jax.random.randint(key, (batch_size,), 0, num_training(count)))
