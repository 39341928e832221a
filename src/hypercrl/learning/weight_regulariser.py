"""The paper's regulariser: the weights that are generated for old tasks stay where they were.

    L_reg = β / (t − 1) Σ_{i<t} ‖H_{Θ_{t−1}}(e_i) − H_Θ(e_i)‖²

Nothing is kept of a task but its embedding. An update looks at all old tasks.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from hypercrl.learning.regulariser import Regulariser
from hypercrl.registry import regularisers


@regularisers.register("weights")
@dataclass(frozen=True)
class WeightRegulariser(Regulariser):
    """Huang et al. (2021), after von Oswald et al. (2020)."""

    draws: ClassVar[bool] = False

    strength: float = 0.05
    """β, against the error of one transition."""

    def init(self, spec, num_tasks):
        return ()

    def remember(self, kept, task, inputs, used):
        return kept

    def rows(self, task, num_tasks, key):
        return jnp.arange(num_tasks)

    def penalty(self, weights, anchors, old, key):
        moved = jnp.where((old.rows < old.task)[:, None], weights - anchors, 0.0)
        # Times the batch size, because L_dyn is summed over the batch.
        scale = old.batch_size * self.strength / jnp.maximum(old.task, 1)
        return scale * jnp.vdot(moved, moved)
