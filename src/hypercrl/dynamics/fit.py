"""A training session: S updates in one compiled loop.

Learners supply the body. The number of updates is a run-time value, so sessions of different
lengths share one compilation.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

Carry = TypeVar("Carry")
Info = dict[str, Any]


def run_updates(
    step: Callable[[Carry, PRNGKeyArray], tuple[Carry, Info]],
    carry: Carry,
    num_updates: Any,
    key: PRNGKeyArray,
) -> tuple[Carry, Info]:
    """Apply `step` repeatedly; the scalars it reports are averaged over the session."""
    _, shapes = jax.eval_shape(step, carry, key)
    totals = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def body(i, loop):
        carry, totals = loop
        carry, info = step(carry, jax.random.fold_in(key, i))
        return carry, jax.tree.map(jnp.add, totals, info)

    carry, totals = jax.lax.fori_loop(0, num_updates, body, (carry, totals))
    return carry, jax.tree.map(lambda x: x / jnp.maximum(num_updates, 1), totals)
