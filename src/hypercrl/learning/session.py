"""A training session: S updates in one compiled loop.

Learners supply the body. The number of updates is a run-time value, so sessions of different
lengths share one compilation.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Carry = TypeVar("Carry")
Info = dict[str, Any]


def run_updates(
    step: Callable[[Carry, PRNGKeyArray, Float[Array, ""]], tuple[Carry, Info]],
    carry: Carry,
    num_updates: Any,
    key: PRNGKeyArray,
) -> tuple[Carry, Info]:
    """Apply `step` repeatedly; the scalars it reports are averaged over the session.

    It is also told how much of the session is over, from 0 to almost 1.
    """
    _, shapes = jax.eval_shape(step, carry, key, jnp.zeros(()))
    totals = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def body(i, loop):
        carry, totals = loop
        carry, info = step(carry, jax.random.fold_in(key, i), i / num_updates)
        return carry, jax.tree.map(jnp.add, totals, info)

    carry, totals = jax.lax.fori_loop(0, num_updates, body, (carry, totals))
    return carry, jax.tree.map(lambda x: x / jnp.maximum(num_updates, 1), totals)


def shrink(updates: Any, anneal: bool, progress: Float[Array, ""]) -> Any:
    """Smaller steps towards a session's end, along half a cosine, if `anneal` says so.

    At a constant step size the weights never come to rest, and a session may end with weights
    that predict badly just where the planner looks.
    """
    if not anneal:
        return updates
    pace = (1 + jnp.cos(jnp.pi * progress)) / 2
    return jax.tree.map(lambda step: pace * step, updates)
