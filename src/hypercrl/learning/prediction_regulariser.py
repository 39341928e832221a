"""Old tasks' networks may move as long as they say the same.

    L_reg = λ Σ_b ‖f(x_b; H_{Θ_{t−1}}(e_i)) − f(x_b; H_Θ(e_i))‖² / D,   x_b ~ N(0, C_i)

for one old task i, drawn anew in every update, and as many pseudo-inputs as a batch has
transitions. C_i is the covariance of the task's normalised inputs, the only thing that is kept
of them: no transition survives. The penalty is on the scale of L_dyn, whatever the suite; it
leaves weights free to move where nothing depends on them, and costs the same for any number of
tasks. It is the distillation of Li and Hoiem (2016) with inputs that are drawn, not stored.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.dynamics.mlp import apply_mlp
from hypercrl.learning.regulariser import Regulariser
from hypercrl.registry import regularisers

JITTER = 1e-4  # on the covariance's diagonal of 1, so that constant inputs have a factor too


@regularisers.register("predictions")
@dataclass(frozen=True)
class PredictionRegulariser(Regulariser):
    """Keeps a covariance of the inputs per task: a few hundred numbers."""

    strength: float = 3.0
    """λ: what the past counts against the present."""

    @property
    def draws(self):
        return True

    def init(self, spec, num_tasks):
        num_inputs = spec.encoding.num_features + spec.action_dim
        return jnp.zeros((num_tasks, num_inputs, num_inputs))

    def remember(self, kept, task, inputs, used):
        rows = jnp.where(used[:, None], inputs, 0.0)
        covariance = rows.T @ rows / jnp.maximum(used.sum(), 1)
        factor = jnp.linalg.cholesky(covariance + JITTER * jnp.eye(len(covariance)))
        return kept.at[task].set(factor)

    def rows(self, task, num_tasks, key):
        return jax.random.randint(key, (1,), 0, jnp.maximum(task, 1))

    def penalty(self, weights, anchors, old, key):
        factor = old.kept[old.rows[0]]
        inputs = jax.random.normal(key, (old.batch_size, len(factor))) @ factor.T
        layout, activation = old.network.layout(old.spec), old.network.activation
        now, before = (
            apply_mlp(layout.unflatten(row[0]), inputs, activation) for row in (weights, anchors)
        )
        error = ((now - before) ** 2).mean(-1).sum()
        return jnp.where(old.task > 0, self.strength * error, 0.0)
