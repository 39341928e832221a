"""Plan with the best that a model holds possible, to find out whether it is so.

    s' = f(s, a) + β Σ(s, a) η,   η = Σ ∇r / ‖Σ ∇r‖

the state that pays most among those within β standard deviations of the one that is expected, to
first order: hallucinated control (Curi et al. 2020) with a policy for η that is written down. A
planner that knows of nothing better than to stay where it is tries what it is not sure of, and
what comes of it is what the model lacks. To act well, plan with the model itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.dynamics.model import DynamicsModel
from hypercrl.types import Model, Reward

SMALLEST_SLOPE = 1e-12  # of the reward: below it no direction is better than another


class OptimisticModel(eqx.Module):
    """A model that the world meets half-way, by `optimism` standard deviations in every step."""

    model: DynamicsModel
    reward: Reward
    optimism: float

    def __call__(self, state: Float[Array, "S"], action: Float[Array, "A"]) -> Float[Array, "S"]:
        expected, spread = self.model.output(state, action), self.model.std(state, action)
        if spread is None:
            return self.model.advance(state, expected)

        def worth(output):
            return self.reward(state, action, self.model.advance(state, output))

        slope = spread * jax.grad(worth)(expected)
        slope = jnp.where(jnp.isfinite(slope).all(), slope, 0.0)  # a kink of the reward
        steepness = jnp.sqrt(jnp.sum(slope**2) + SMALLEST_SLOPE**2)
        return self.model.advance(state, expected + self.optimism * spread * slope / steepness)


def optimistic(model: Model, reward: Reward, optimism: float) -> Model:
    """The model that hopes; one that does not say how sure it is stays as it is."""
    if optimism == 0 or not isinstance(model, DynamicsModel):
        return model
    return OptimisticModel(model, reward, optimism)
