"""iCEM, the sample-efficient cross-entropy method (Pinneri et al. 2020).

What it adds to CEM: noise correlated in time, a mean that is shifted from one control step to
the next, elites kept from round to round and from step to step, momentum in the refit, actions
clipped to their bounds before they are imagined, and the mean itself tried in the last round.

The number of samples is the same in every round, so that all rounds are one compiled loop; the
publication lets it decay.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.errors import UserError
from hypercrl.planning.cem import refit, select_elites
from hypercrl.planning.noise import MAX_EXPONENT, coloured_basis
from hypercrl.planning.rollout import imagine, summarise
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner


class ICEMState(NamedTuple):
    """What the last control step's plan leaves for the next one, and the action bounds."""

    mean: Float[Array, "H A"]
    kept: Float[Array, "kept H A"]
    low: Float[Array, "A"]
    high: Float[Array, "A"]


@planners.register("icem")
@dataclass(frozen=True)
class ICEM(Planner):
    """The defaults evaluate the model an eighth as often as the paper's CEM does."""

    horizon: int = 20
    """Control steps looked ahead."""
    num_samples: int = 128
    """Action sequences a round, the kept ones included."""
    num_iterations: int = 3
    """Rounds of sampling and refitting."""
    num_elites: int = 16
    """Best sequences that the distribution is refitted to."""
    num_kept: int = 5
    """Elites that take part in the next round and, shifted, in the next control step."""
    noise_beta: float = 2.5
    """Power-law exponent of the noise over time; 0 is white."""
    momentum: float = 0.1
    """Share of the old mean and spread in a refit."""
    init_std: float = 1.0
    """Spread at the start of every control step, in units of half the action range."""

    def __post_init__(self):
        if min(self.horizon, self.num_iterations) < 1 or not self.init_std > 0:
            raise UserError(
                "iCEM needs a horizon and num_iterations of at least 1 and a positive init_std; "
                f"it was given {self.horizon}, {self.num_iterations}, {self.init_std}."
            )
        if not (0 <= self.num_kept <= self.num_elites <= self.num_samples and self.num_elites):
            raise UserError(
                "iCEM needs num_kept <= num_elites <= num_samples and at least one elite; it was "
                f"given {self.num_kept}, {self.num_elites}, {self.num_samples}."
            )
        if not 0 <= self.momentum < 1:
            raise UserError(f"iCEM needs a momentum in [0, 1), not {self.momentum}.")
        if not 0 <= self.noise_beta <= MAX_EXPONENT:
            raise UserError(
                f"iCEM needs a noise_beta from 0 to {MAX_EXPONENT:g}, not {self.noise_beta}."
            )

    def init(self, spec):
        low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
        if not np.isfinite([low, high]).all():
            raise UserError(
                "iCEM scales its noise by the action range, and this suite's actions are "
                "unbounded; give them bounds or plan with 'cem'."
            )
        mean = jnp.broadcast_to(jnp.asarray((low + high) / 2), (self.horizon, len(low)))
        kept = jnp.broadcast_to(mean, (self.num_kept, *mean.shape))
        return ICEMState(mean, kept, jnp.asarray(low), jnp.asarray(high))

    def plan(self, state, model, reward, observation, *, key):
        return _plan(self, state, model, reward, jnp.asarray(observation), key)

    @property
    def evaluations_per_action(self):
        return self.num_iterations * self.num_samples * self.horizon


@eqx.filter_jit
def _plan(planner: ICEM, state: ICEMState, model, reward, observation, key) -> Plan:
    noise = _draw_noise(planner, len(state.low), key)

    def sample(mean, std, noise):
        return jnp.clip(mean + std * noise, state.low, state.high)

    def refine(carry, noise):
        mean, std, kept = carry
        actions = sample(mean, std, noise).at[: planner.num_kept].set(kept)
        returns = imagine(model, reward, observation, actions)
        elites, elite_returns = select_elites(actions, returns, planner.num_elites)
        new_mean, new_std = refit(mean, std, elites, elite_returns)
        mean = planner.momentum * mean + (1 - planner.momentum) * new_mean
        std = planner.momentum * std + (1 - planner.momentum) * new_std
        return (mean, std, elites[: planner.num_kept]), (elites[0, 0], returns)

    # One step has been executed since: drop it, and let the mean end as it did.
    mean = jnp.concatenate([state.mean[1:], state.mean[-1:]])
    std = jnp.broadcast_to(planner.init_std * (state.high - state.low) / 2, mean.shape)
    last = sample(mean, std, noise[0, : planner.num_kept])[:, -1:]
    kept = jnp.concatenate([state.kept[:, 1:], last], axis=1)

    (mean, _, kept), (best_actions, returns) = jax.lax.scan(refine, (mean, std, kept), noise)
    info = summarise(returns)
    action = jnp.where(info["fallback"], mean[0], best_actions[-1])
    return Plan(action, state._replace(mean=mean, kept=kept), info)


def _draw_noise(planner: ICEM, action_dim: int, key) -> Float[Array, "rounds N H A"]:
    shape = (planner.num_iterations, planner.num_samples, planner.horizon, action_dim)
    basis = coloured_basis(planner.horizon, planner.noise_beta)
    noise = jnp.einsum("tu,rnua->rnta", basis, jax.random.normal(key, shape))
    # A sample without noise is the mean itself; the first rows give way to the kept elites.
    return noise.at[-1, -1].set(0.0)
