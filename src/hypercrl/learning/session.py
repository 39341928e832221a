"""A training session: S updates in one compiled loop.

Learners supply the body. The number of updates is a run-time value, so sessions of different
lengths share one compilation. What a processor likes about the order of things is settled here.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

Carry = TypeVar("Carry")
Derived = TypeVar("Derived")
Info = dict[str, Any]
Progress = Float[Array, ""]

# A CPU should finish with one block of a hypernetwork's matrix before it takes the next; XLA's
# usual order takes all of them through each part of an update in turn.
_DEPTH_FIRST: dict[str, Any] = {
    "compiler_options": {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
}

compiled_session = eqx.filter_jit(**_DEPTH_FIRST)
"""Compiles the function that runs a session, in the order that suits a loop of updates."""


def run_updates(
    step: Callable[[Carry, PRNGKeyArray, Progress], tuple[Carry, Info]],
    carry: Carry,
    num_updates: Int[Array, ""] | int,
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


def run_derived_updates(
    step: Callable[[Carry, Derived, PRNGKeyArray, Progress], tuple[Carry, Info]],
    derive: Callable[[Carry], Derived],
    carry: Carry,
    num_updates: Int[Array, ""] | int,
    key: PRNGKeyArray,
) -> tuple[Carry, Info]:
    """The same with a step that also receives `derive(carry)`.

    It is derived at the end of the update before, while what it is derived from is still in the
    processor's cache: a full hypernetwork's parameters are too many to be read twice.
    """

    def step_and_derive(loop, key, progress):
        carry, derived = loop
        carry, info = step(carry, derived, key, progress)
        return (carry, derive(carry)), info

    (carry, _), info = run_updates(step_and_derive, (carry, derive(carry)), num_updates, key)
    return carry, info
