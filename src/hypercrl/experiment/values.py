"""The values of a run's tasks: one under way, those of finished tasks, or none at all."""

from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from hypercrl.experiment import checkpoint
from hypercrl.learning.critic import Critic, CriticState, StateValue
from hypercrl.types import Reward, Spec, Transitions, Value


class Values:
    """What lies behind the horizon of every task seen, as far as the run's critic learns it."""

    def __init__(self, critic: Critic, spec: Spec):
        self._critic, self._spec = critic, spec
        self._finished: list[StateValue] = []
        self._under_way: CriticState | None = None

    def start_task(self, *, key: PRNGKeyArray) -> None:
        if self._critic.learns:
            self._under_way = self._critic.init(self._spec, key=key)

    def update(self, data: Transitions, reward: Reward, *, key: PRNGKeyArray) -> None:
        """Learn from the current task's data."""
        if self._under_way is not None:
            self._under_way = self._critic.update(self._under_way, data, reward, key=key)

    def end_task(self) -> None:
        """Keep the value and leave behind what it was learnt with."""
        if self._under_way is not None:
            self._finished.append(self._under_way.value)
            self._under_way = None

    def of(self, task: int) -> Value | None:
        """The value of a task, or of the last one before it as a guess."""
        known = [*self._finished, *([self._under_way.value] if self._under_way else [])]
        return known[min(task, len(known) - 1)] if known else None

    @property
    def bytes_per_task(self) -> int:
        return self._finished[0].num_bytes if self._finished else 0

    @property
    def num_bytes(self) -> int:
        """Everything that is held now."""
        leaves = jax.tree.leaves((self._finished, self._under_way))
        return sum(leaf.nbytes for leaf in leaves)

    def get_state(self) -> dict[str, Any]:
        return {"finished": self._finished, "under_way": self._under_way}

    def set_state(self, arrays: checkpoint.Arrays) -> None:
        """Go back to where the flattened arrays of a `get_state` were taken."""
        fresh = self._critic.init(self._spec, key=jax.random.key(0))
        under_way = checkpoint.section(arrays, "under_way")
        self._under_way = checkpoint.unflatten(fresh, under_way) if under_way else None
        finished = checkpoint.section(arrays, "finished")
        count = len({name.split("/")[0] for name in finished})
        self._finished = checkpoint.unflatten([fresh.value] * count, finished)
