"""Old tasks' networks may move as long as they say the same.

    L_reg = λ max(1, n / m) Σ_b d(f(x_b; H_{Θ_{t−1}}(e_i)), f(x_b; H_Θ(e_i))),   x_b ~ N(μ_ik, C_i)

for one old task i, drawn anew in every update, and as many pseudo-inputs as a batch has
transitions, each about one of the task's regions k, drawn evenly. How far two predictions are
apart, d, is the head's to say: ‖·‖² / D of a point, and a Gaussian minds its own spread. The
regions' centres μ_ik and the covariance C_i within them, both of the task's normalised inputs, are
all that is kept of them: no transition survives. A single Gaussian (`regions` = 1) seldom draws
what happens seldom, a lever that turns while the gripper holds it, and there the old network would
be free to move. The penalty is on the scale of L_dyn, whatever the suite; it leaves weights free to
move where nothing depends on them, and costs the same for any number of tasks. It is the
distillation of Li and Hoiem (2016) with inputs that are drawn, not stored.

Of n old tasks each is drawn in one update of n. Up to m of them share λ between them; with more it
grows, so that the 101st task finds the first held as hard as the eleventh did.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.checks import at_least
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.mlp import apply_mlp
from hypercrl.learning.regions import find_regions
from hypercrl.learning.regulariser import Regulariser
from hypercrl.registry import regularisers

JITTER = 1e-4  # on the covariance's diagonal of 1, so that constant inputs have a factor too


class Inputs(eqx.Module):
    """Where finished tasks' inputs were."""

    centres: Float[Array, "T regions inputs"]
    factor: Float[Array, "T inputs inputs"]  # Cholesky's, of the covariance within the regions


@regularisers.register("predictions")
@dataclass(frozen=True)
class PredictionRegulariser(Regulariser):
    """Keeps regions of the inputs per task: a few hundred or thousand numbers."""

    strength: float = 3.0
    """λ: what the past counts against the present."""
    regions: int = 32
    """Places around which old tasks' pseudo-inputs are drawn."""
    sharers: int = 10
    """m: so many old tasks share λ; with more it grows in proportion, and none is held less."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 1, "regions", "sharers")

    @property
    def draws(self):
        return True

    def init(self, spec, num_tasks):
        num_inputs = spec.encoding.num_features + spec.action_dim
        return Inputs(
            jnp.zeros((num_tasks, self.regions, num_inputs)),
            jnp.zeros((num_tasks, num_inputs, num_inputs)),
        )

    def remember(self, kept, task, inputs, used, *, key):
        centres, covariance = find_regions(inputs, used, self.regions, key=key)
        factor = jnp.linalg.cholesky(covariance + JITTER * jnp.eye(len(covariance)))
        return Inputs(kept.centres.at[task].set(centres), kept.factor.at[task].set(factor))

    def rows(self, task, num_tasks, key):
        return jax.random.randint(key, (1,), 0, jnp.maximum(task, 1))

    def penalty(self, weights, anchors, old, key):
        inputs = self.draw(old.kept, old.rows[0], old.batch_size, key=key)
        layout, activation = old.network.layout(old.spec), old.network.activation
        now, before = (
            apply_mlp(layout.unflatten(row[0]), inputs, activation) for row in (weights, anchors)
        )
        diverge = jax.vmap(HEADS[old.network.head].divergence, in_axes=(None, 0, 0))
        error = diverge(old.head, before, now).sum()
        strength = self.strength * jnp.maximum(old.task / self.sharers, 1.0)
        return jnp.where(old.task > 0, strength * error, 0.0)

    def draw(self, kept: Inputs, task, count: int, *, key) -> Float[Array, "count inputs"]:
        """Pseudo-inputs of a finished task."""
        region_key, noise_key = jax.random.split(key)
        centres, factor = kept.centres[task], kept.factor[task]
        regions = jax.random.randint(region_key, (count,), 0, self.regions)
        return centres[regions] + jax.random.normal(noise_key, (count, len(factor))) @ factor.T
