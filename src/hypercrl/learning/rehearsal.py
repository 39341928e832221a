"""Losses on what is kept of old tasks' transitions, added to that of the current task."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.architecture import Architecture, Params
from hypercrl.dynamics.model import prepare
from hypercrl.types import Memory, Spec


class Kept(NamedTuple):
    """Old transitions ready for the network, each task under its own normaliser."""

    inputs: Float[Array, "T C inputs"]
    targets: Float[Array, "T C outputs"]
    counts: Int[Array, "T"]


def prepare_memory(spec: Spec, normalizers: Normalizer, memory: Memory) -> Kept:
    """Inputs and targets of old transitions, each task under its own normaliser."""
    inputs, targets = jax.vmap(lambda n, s, a, y: prepare(spec, n, s, a, y))(
        normalizers, memory.states, memory.actions, memory.next_states
    )
    return Kept(inputs, targets, memory.counts)


@dataclass(frozen=True)
class Rehearsal(abc.ABC):
    """Which old transitions an update revisits; old tasks' own weights are trained along."""

    batch_size: int

    @abc.abstractmethod
    def loss(
        self,
        architecture: Architecture,
        spec: Spec,
        params: Params,
        kept: Kept,
        task: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Float[Array, ""]:
        """On the scale of L_dyn, which is summed over a batch."""


class UnionBatch(Rehearsal):
    """One batch from all that is kept, each transition through the head of its own task."""

    def loss(self, architecture, spec, params, kept, task, key):
        tasks, rows = draw_from_union(key, kept.counts, self.batch_size)
        inputs, targets = kept.inputs[tasks, rows], kept.targets[tasks, rows]

        def with_head(tasks, bounds):
            """Every sample's loss under one head; the trunk runs only once for all heads."""
            own = Params(params.shared, tasks, bounds)
            spread = architecture.head.penalty(bounds) / self.batch_size
            return architecture.losses(spec, own, None, inputs, targets) + spread

        is_own = jnp.arange(len(kept.counts))[:, None] == tasks[None]
        losses = jax.vmap(with_head)(params.tasks, params.bounds)
        total = jnp.where(is_own, losses, 0.0).sum()
        return jnp.where(kept.counts.sum() > 0, total, 0.0)


class EveryTask(Rehearsal):
    """A batch of every old task."""

    def loss(self, architecture, spec, params, kept, task, key):
        def one_task(i, row):
            rows = draw_rows(jax.random.fold_in(key, i), kept.counts[i], self.batch_size)
            inputs, targets = kept.inputs[i, rows], kept.targets[i, rows]
            return architecture.loss(spec, Params(params.shared, *row), None, inputs, targets)

        return sum_over_old_tasks(one_task, task, (params.tasks, params.bounds))


def draw_from_union(
    key: PRNGKeyArray, counts: Int[Array, "T"], batch_size: int
) -> tuple[Int[Array, "batch"], Int[Array, "batch"]]:
    """Tasks and rows of old transitions, every kept transition equally likely."""
    ends = jnp.cumsum(counts)
    drawn = jax.random.randint(key, (batch_size,), 0, jnp.maximum(ends[-1], 1))
    tasks = jnp.searchsorted(ends, drawn, side="right")
    return tasks, drawn - (ends - counts)[tasks]


def draw_rows(key: PRNGKeyArray, count: Int[Array, ""], batch_size: int) -> Int[Array, "batch"]:
    """Rows of kept transitions, drawn uniformly with replacement."""
    return jax.random.randint(key, (batch_size,), 0, jnp.maximum(count, 1))


def sum_over_old_tasks(
    loss: Callable[[Int[Array, ""], Any], Float[Array, ""]], task: Int[Array, ""], rows: Any
) -> Float[Array, ""]:
    """Σ_{i<t} loss(i, row i). Branches are taken at run time: tasks to come cost nothing."""

    def add(total, operands):
        return total + jax.lax.cond(operands[0] < task, loss, _nothing, *operands), None

    num_tasks = len(jax.tree.leaves(rows)[0])
    total, _ = jax.lax.scan(add, jnp.zeros(()), (jnp.arange(num_tasks), rows))
    return total


def _nothing(i, row):
    return jnp.zeros(())
