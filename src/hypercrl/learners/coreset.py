"""Coreset: one in a hundred transitions of each finished task stays and is rehearsed.

    L = L_dyn(batch of task t) + L_dyn(batch from the union of all coresets)

Huang et al. (2021), section V-D: the sample is random, and each update adds one batch of it,
whatever the number of tasks. Every old transition goes through the head of its own task.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from hypercrl.dynamics.heads import get_head
from hypercrl.learners.baseline import BaselineLearner
from hypercrl.registry import learners


@learners.register("coreset")
@dataclass(frozen=True)
class Coreset(BaselineLearner):
    """The baseline that rehearses 1 % of the past."""

    memory_fraction: ClassVar[float] = 0.01

    def memory_loss(self, params, kept, task, spec, key):
        tasks, rows = draw_from_union(key, kept.counts, self.batch_size)
        inputs, targets = kept.inputs[tasks, rows], kept.targets[tasks, rows]

        def with_head(row):
            """Every sample's loss under one head; the trunk runs only once for all heads."""
            own = params._replace(tasks=row)
            spread = get_head(self.network.head).penalty(own.tasks["bounds"])
            return self.errors(own, None, inputs, targets, spec) + spread / self.batch_size

        is_own = jnp.arange(len(kept.counts))[:, None] == tasks
        losses = jnp.where(is_own, jax.vmap(with_head)(params.tasks), 0.0)
        return jnp.where(kept.counts.sum() > 0, losses.sum(), 0.0)


def draw_from_union(
    key: PRNGKeyArray, counts: Int[Array, "T"], batch_size: int
) -> tuple[Int[Array, "batch_size"], Int[Array, "batch_size"]]:
    """Tasks and rows of old transitions, every kept transition equally likely."""
    ends = jnp.cumsum(counts)
    drawn = jax.random.randint(key, (batch_size,), 0, jnp.maximum(ends[-1], 1))
    tasks = jnp.searchsorted(ends, drawn, side="right")
    return tasks, drawn - (ends - counts)[tasks]
