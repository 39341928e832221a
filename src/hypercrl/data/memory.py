"""What the runner keeps of finished tasks' transitions, for methods that declare they need it.

A method states a share: 0 for the continual learners proper, 0.01 for the coreset, 1 for the
oracles. The runner keeps that share and nothing else, and hands it to no other method. Rows that
are held out for validation are never kept: what is replayed is what was trained on.
"""

import jax.numpy as jnp
import numpy as np

from hypercrl.data.buffer import held_out
from hypercrl.errors import UserError
from hypercrl.types import Memory, Spec


class TaskMemory:
    """A uniform sample of each finished task's transitions."""

    def __init__(self, spec: Spec, num_tasks: int, capacity: int, share: float):
        """Room for so many tasks, with `capacity` transitions each before a share is drawn."""
        if not 0.0 <= share <= 1.0:
            raise UserError(f"A method can keep a share between 0 and 1 and not {share}.")
        self.share = share
        rows = self._num_kept(capacity)
        self._states = np.zeros((num_tasks, rows, spec.state_dim), np.float32)
        self._actions = np.zeros((num_tasks, rows, spec.action_dim), np.float32)
        self._next_states = np.zeros((num_tasks, rows, spec.state_dim), np.float32)
        self._counts = np.zeros(num_tasks, np.int32)

    @property
    def room(self) -> int:
        """Tasks that the arrays have a row for."""
        return len(self._counts)

    def make_room(self, num_tasks: int) -> None:
        """Add empty rows up to so many tasks."""
        more = num_tasks - self.room
        for name, array in self.get_state().items():
            rows = np.zeros((more, *array.shape[1:]), array.dtype)
            setattr(self, f"_{name}", np.concatenate([array, rows]))

    def keep(self, task: int, data: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        """Add a finished task's share, drawn from its training rows without replacement."""
        total = len(data["states"])
        trained = np.setdiff1d(np.arange(total), held_out(total))
        chosen = np.sort(rng.choice(trained, self._num_kept(total), replace=False))
        self._counts[task] = len(chosen)
        self._states[task, : len(chosen)] = data["states"][chosen]
        self._actions[task, : len(chosen)] = data["actions"][chosen]
        self._next_states[task, : len(chosen)] = data["next_states"][chosen]

    def view(self) -> Memory | None:
        """The arrays for a learner; None where the method may keep nothing."""
        if self.share == 0:
            return None
        return Memory(
            jnp.array(self._states),
            jnp.array(self._actions),
            jnp.array(self._next_states),
            jnp.array(self._counts),
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of old transitions held now."""
        row = self._states[0, :1].nbytes + self._actions[0, :1].nbytes
        row += self._next_states[0, :1].nbytes
        return int(self._counts.sum()) * row

    def get_state(self) -> dict[str, np.ndarray]:
        return {
            "states": self._states,
            "actions": self._actions,
            "next_states": self._next_states,
            "counts": self._counts,
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Take over arrays with whatever room they have."""
        for name, array in self.get_state().items():
            found = state[name]
            if (found.shape[1:], found.dtype) != (array.shape[1:], array.dtype):
                raise ValueError(f"{name} are of another kind of transitions")
            setattr(self, f"_{name}", found.copy())

    def _num_kept(self, total: int) -> int:
        """The share of `total` rows, as far as there are training rows."""
        # A share of a short task may round to nothing, but then there is nothing to sample from.
        asked = max(round(self.share * total), 1) if self.share else 0
        return min(asked, total - len(held_out(total)))
