"""The paper's regulariser: the weights that are generated for old tasks stay where they were.

    L_reg = β / (t − 1) Σ_{i<t} ‖H_{Θ_{t−1}}(e_i) − H_Θ(e_i)‖²

Nothing is kept of a task but its embedding. An update looks at all old tasks, or at a few that
are drawn anew each time and whose mean stands for that of all (Auddy et al. 2023 lose nothing
with one): then it costs the same for any number of tasks.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.checks import at_least
from hypercrl.learning.regulariser import Regulariser
from hypercrl.registry import regularisers


@regularisers.register("weights")
@dataclass(frozen=True)
class WeightRegulariser(Regulariser):
    """Huang et al. (2021), after von Oswald et al. (2020)."""

    strength: float = 0.05
    """β, against the error of one transition."""
    regularised_tasks: int = 0
    """Old tasks that an update looks at, drawn anew each time; 0 for all of them, the paper's."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 0, "regularised_tasks")

    @property
    def draws(self):
        return self.regularised_tasks > 0

    def init(self, spec, num_tasks):
        return ()

    def remember(self, kept, task, inputs, used, *, key):
        return kept

    def rows(self, task, num_tasks, key):
        if not self.draws:
            return jnp.arange(num_tasks)
        count = self.regularised_tasks
        drawn = jax.random.randint(key, (count,), 0, jnp.maximum(task, 1))
        return jnp.where(task > count, drawn, jnp.arange(count))  # as long as they are few, all

    def penalty(self, weights, anchors, old, key):
        moved = jnp.where((old.rows < old.task)[:, None], weights - anchors, 0.0)
        count = jnp.minimum(old.task, self.regularised_tasks) if self.draws else old.task
        # Times the batch size, because L_dyn is summed over the batch.
        scale = old.batch_size * self.strength / jnp.maximum(count, 1)
        return scale * jnp.vdot(moved, moved)
