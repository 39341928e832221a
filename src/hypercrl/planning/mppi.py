"""MPPI, model-predictive path integral control (Williams et al. 2017).

    mean  ←  Σ_n w_n (mean + ε_n),   w_n ∝ exp(return_n / λ),   ε_n ~ noise of fixed spread

The mean is shifted from one control step to the next and its first action executed. λ is the
temperature times the spread of the returns imagined in the round, so that one temperature fits
rewards of any scale.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.errors import UserError
from hypercrl.planning.noise import MAX_EXPONENT, coloured_basis
from hypercrl.planning.rollout import imagine, summarise
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner

SMALLEST_SPREAD = 1e-6  # of returns; below it all sequences are equally good


class MPPIState(NamedTuple):
    """The last control step's mean and the action bounds."""

    mean: Float[Array, "H A"]
    low: Float[Array, "A"]
    high: Float[Array, "A"]


@planners.register("mppi")
@dataclass(frozen=True)
class MPPI(Planner):
    """The defaults spend about what iCEM spends."""

    horizon: int = 20
    """Control steps looked ahead."""
    num_samples: int = 128
    """Action sequences a round."""
    num_iterations: int = 3
    """Rounds of sampling and averaging."""
    temperature: float = 0.2
    """How far below the best a sequence still counts, in standard deviations of the returns."""
    noise_beta: float = 1.0
    """Power-law exponent of the noise over time; 0 is white."""
    noise_std: float = 0.5
    """Spread of the noise, in units of half the action range."""

    def __post_init__(self):
        if min(self.horizon, self.num_iterations, self.num_samples) < 1:
            raise UserError(
                "MPPI needs a horizon, num_iterations and num_samples of at least 1; it was given "
                f"{self.horizon}, {self.num_iterations}, {self.num_samples}."
            )
        if not (self.temperature > 0 and self.noise_std > 0):
            raise UserError(
                "MPPI needs a positive temperature and noise_std; it was given "
                f"{self.temperature}, {self.noise_std}."
            )
        if not 0 <= self.noise_beta <= MAX_EXPONENT:
            raise UserError(
                f"MPPI needs a noise_beta from 0 to {MAX_EXPONENT:g}, not {self.noise_beta}."
            )

    def init(self, spec):
        low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
        if not np.isfinite([low, high]).all():
            raise UserError(
                "MPPI scales its noise by the action range, and this suite's actions are "
                "unbounded; give them bounds or plan with 'cem'."
            )
        mean = jnp.broadcast_to(jnp.asarray((low + high) / 2), (self.horizon, len(low)))
        return MPPIState(mean, jnp.asarray(low), jnp.asarray(high))

    def plan(self, state, model, reward, observation, *, key):
        return _plan(self, state, model, reward, jnp.asarray(observation), key)

    @property
    def evaluations_per_action(self):
        return self.num_iterations * self.num_samples * self.horizon


@eqx.filter_jit
def _plan(planner: MPPI, state: MPPIState, model, reward, observation, key) -> Plan:
    shape = (planner.num_iterations, planner.num_samples, *state.mean.shape)
    basis = coloured_basis(planner.horizon, planner.noise_beta)
    noise = jnp.einsum("tu,rnua->rnta", basis, jax.random.normal(key, shape))
    std = planner.noise_std * (state.high - state.low) / 2

    def refine(mean, noise):
        actions = jnp.clip(mean + std * noise, state.low, state.high)
        returns = imagine(model, reward, observation, actions)
        weights = weigh(returns, planner.temperature)
        new_mean = jnp.einsum("n,nha->ha", weights, actions)
        return jnp.where(weights.any(), new_mean, mean), returns

    # One step has been executed since: drop it, and let the mean end as it did.
    mean = jnp.concatenate([state.mean[1:], state.mean[-1:]])
    mean, returns = jax.lax.scan(refine, mean, noise)
    return Plan(mean[0], state._replace(mean=mean), summarise(returns))


def weigh(returns: Float[Array, "N"], temperature: float) -> Float[Array, "N"]:
    """Weights that sum to 1 over the finite returns; all 0 if there are none."""
    is_finite = jnp.isfinite(returns)
    spread = jnp.maximum(jnp.std(returns, where=is_finite), SMALLEST_SPREAD)
    weights = jax.nn.softmax(returns / (temperature * spread), where=is_finite)
    return jnp.where(is_finite, weights, 0.0)
