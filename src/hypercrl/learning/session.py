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

# Roughly what a core has for itself: a chunked hypernetwork with its moments fits in, a full one
# does not. On the wrong side of it an update takes up to a tenth longer (`benchmarks/updates.py`).
_CACHE_BYTES = 4_000_000

compiled_session = eqx.filter_jit(**_DEPTH_FIRST)
"""Compiles the function that runs a session, in the order that suits a loop of updates."""


def run_updates(
    step: Callable[[Carry, PRNGKeyArray, Progress], tuple[Carry, Info]],
    carry: Carry,
    num_updates: Int[Array, ""] | int,
    key: PRNGKeyArray,
) -> tuple[Carry, Info]:
    """Apply `step` repeatedly; the scalars it reports are averaged over the session.

    What it reports first is there too, as `first_…`: at a task's start it shows what the switch
    costs. The step is also told how much of the session is over, from 0 to almost 1.
    """
    _, shapes = jax.eval_shape(step, carry, key, jnp.zeros(()))
    totals = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    def body(i, loop):
        carry, totals, first = loop
        carry, info = step(carry, jax.random.fold_in(key, i), i / num_updates)
        first = jax.tree.map(lambda old, new: jnp.where(i == 0, new, old), first, info)
        return carry, jax.tree.map(jnp.add, totals, info), first

    carry, totals, first = jax.lax.fori_loop(0, num_updates, body, (carry, totals, totals))
    means = jax.tree.map(lambda x: x / jnp.maximum(num_updates, 1), totals)
    return carry, means | {f"first_{name}": value for name, value in first.items()}


def run_derived_updates(
    step: Callable[[Carry, Derived, PRNGKeyArray, Progress], tuple[Carry, Info]],
    derive: Callable[[Carry], Derived],
    carry: Carry,
    num_updates: Int[Array, ""] | int,
    key: PRNGKeyArray,
) -> tuple[Carry, Info]:
    """The same with a step that also receives `derive(carry)`.

    What is derived from more than fits into the processor's cache is derived at the end of the
    update before, while the last of it is still there; from less, at once, so that the step can
    share the work. The numbers are the same.
    """
    early = sum(x.nbytes for x in jax.tree.leaves(carry)) > _CACHE_BYTES

    def whole_step(loop, key, progress):
        carry, derived = loop
        carry, info = step(carry, derived if early else derive(carry), key, progress)
        return (carry, derive(carry) if early else None), info

    start = (carry, derive(carry) if early else None)
    (carry, _), info = run_updates(whole_step, start, num_updates, key)
    return carry, info
