"""MPPI, model-predictive path integral control (Williams et al. 2017).

    mean  ←  Σ_n w_n (mean + ε_n),   w_n ∝ exp(return_n / λ),   ε_n ~ noise of fixed spread

The mean is shifted from one control step to the next and its first action executed. λ is the
temperature times the spread of the returns imagined in the round, so that one temperature fits
rewards of any scale.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl import checks
from hypercrl.planning.noise import MAX_EXPONENT
from hypercrl.planning.rollout import summarise
from hypercrl.planning.sampling import (
    SamplingPlanner,
    clip,
    coloured_noise,
    sample,
    shift,
    start_in_the_middle,
)
from hypercrl.registry import planners
from hypercrl.types import Plan

SMALLEST_SPREAD = 1e-6  # of returns; below it all sequences are equally good


@planners.register("mppi")
@dataclass(frozen=True)
class MPPI(SamplingPlanner):
    """The defaults spend about what iCEM spends."""

    temperature: float = 0.2
    """How far below the best a sequence still counts, in standard deviations of the returns."""
    noise_beta: float = 1.0
    """Power-law exponent of the noise over time; 0 is white."""
    noise_std: float = 0.5
    """Spread of the noise, in units of half the action range."""

    def check(self):
        checks.above(self, 0, "temperature", "noise_std")
        checks.between(self, 0, MAX_EXPONENT, "noise_beta")

    def init(self, spec):
        return start_in_the_middle(self, spec)

    def search(self, state, objective, key):
        noise = coloured_noise(self, self.noise_beta, len(state.low), key)
        std = self.noise_std * state.half_range

        def refine(mean, noise):
            actions = clip(sample(mean, std, noise), state.low, state.high)
            returns = objective(actions)
            weights = weigh(returns, self.temperature)
            new_mean = jnp.einsum("n,nha->ha", weights, actions)
            return jnp.where(weights.any(), new_mean, mean), returns

        mean, returns = jax.lax.scan(refine, shift(state.mean), noise)
        return Plan(mean[0], state._replace(mean=mean), summarise(returns))


def weigh(returns: Float[Array, "N"], temperature: float) -> Float[Array, "N"]:
    """Weights that sum to 1 over the finite returns; all 0 if there are none."""
    is_finite = jnp.isfinite(returns)
    spread = jnp.maximum(jnp.std(returns, where=is_finite), SMALLEST_SPREAD)
    weights = jax.nn.softmax(returns / (temperature * spread), where=is_finite)
    return jnp.where(is_finite, weights, 0.0)
