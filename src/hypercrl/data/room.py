"""Room for tasks: arrays with a row a task grow by blocks, as tasks come.

How much room there is depends on the tasks begun and never on those to come. A run that is
extended therefore computes in arrays of the same sizes as one that was as long from the start,
and comes to the same numbers, bit for bit.
"""

from typing import Any

import jax

BLOCK = 5  # tasks; as many as the suites have by default, so that such a run compiles once


def room_for(num_tasks: int) -> int:
    """Rows that arrays have once so many tasks have begun."""
    return -(-num_tasks // BLOCK) * BLOCK


def enlarge(state: Any, template: Any) -> Any:
    """`template`, a fresh state with more room, with what `state` holds in its leading rows."""

    def fill(new, old):
        return old if new.shape == old.shape else new.at[_corner(old)].set(old)

    return jax.tree.map(fill, template, state)


def _corner(array: Any) -> tuple[slice, ...]:
    """Where an array lies in a larger one: rows that look at other tasks grow twice."""
    return tuple(slice(size) for size in array.shape)
