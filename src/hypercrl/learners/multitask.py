"""Multi-task oracle: all transitions of all tasks stay, and every update revisits every task.

    L = L_dyn(batch of task t) + Σ_{i<t} L_dyn(batch of task i)

Huang et al. (2021), section V-D. An update costs as many batches as there are tasks so far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.learners.baseline import BaselineLearner
from hypercrl.registry import learners


@learners.register("multitask")
@dataclass(frozen=True)
class MultiTask(BaselineLearner):
    """The baseline trained on everything ever seen: what could be had without forgetting."""

    memory_fraction: ClassVar[float] = 1.0

    def memory_loss(self, params, kept, task, spec, key):
        def one_task(i, row):
            rows = draw_rows(jax.random.fold_in(key, i), kept.counts[i], self.batch_size)
            own = params._replace(tasks=row)
            return self.loss(own, None, kept.inputs[i, rows], kept.targets[i, rows], spec)

        return sum_over_old_tasks(one_task, task, params.tasks)


def draw_rows(
    key: PRNGKeyArray, count: Int[Array, ""], batch_size: int
) -> Int[Array, "batch_size"]:
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
