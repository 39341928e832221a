"""iCEM, the sample-efficient cross-entropy method (Pinneri et al. 2020).

What it adds to CEM: noise correlated in time, a mean that is shifted from one control step to
the next, elites kept from round to round and from step to step, momentum in the refit, actions
clipped to their bounds before they are imagined, and the mean itself tried in the last round.

The number of samples is the same in every round, so that all rounds are one compiled loop; the
publication lets it decay.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl import checks
from hypercrl.planning.cem import refit, select_elites
from hypercrl.planning.noise import MAX_EXPONENT
from hypercrl.planning.rollout import imagine, summarise
from hypercrl.planning.sampling import (
    SamplingPlanner,
    WarmStart,
    clip,
    coloured_noise,
    sample,
    shift,
    start_in_the_middle,
)
from hypercrl.registry import planners
from hypercrl.types import Plan


class ICEMState(NamedTuple):
    """What the last control step's plan leaves for the next one."""

    start: WarmStart
    kept: Float[Array, "kept H A"]


@planners.register("icem")
@dataclass(frozen=True)
class ICEM(SamplingPlanner):
    """The defaults evaluate the model an eighth as often as the paper's CEM does."""

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

    def check(self):
        checks.between(self, 1, self.num_samples, "num_elites")
        checks.between(self, 0, self.num_elites, "num_kept")
        checks.between(self, 0, MAX_EXPONENT, "noise_beta")
        checks.at_least(self, 0, "momentum")
        checks.below(self, 1, "momentum")
        checks.above(self, 0, "init_std")

    def init(self, spec):
        start = start_in_the_middle(self, spec)
        return ICEMState(start, jnp.broadcast_to(start.mean, (self.num_kept, *start.mean.shape)))

    @property
    def evaluations_per_action(self):
        return self.num_iterations * self.num_samples * self.horizon

    def search(self, state, model, reward, observation, key):
        start: WarmStart = state.start
        noise = coloured_noise(self, self.noise_beta, len(start.low), key)
        # A sample without noise is the mean itself; the first rows give way to the kept elites.
        noise = noise.at[-1, -1].set(0.0)

        def draw(mean, std, noise):
            return clip(sample(mean, std, noise), start.low, start.high)

        def refine(carry, noise):
            mean, std, kept = carry
            actions = draw(mean, std, noise).at[: self.num_kept].set(kept)
            returns = imagine(model, reward, observation, actions)
            elites, elite_returns = select_elites(actions, returns, self.num_elites)
            new_mean, new_std = refit(mean, std, elites, elite_returns)
            mean = self.momentum * mean + (1 - self.momentum) * new_mean
            std = self.momentum * std + (1 - self.momentum) * new_std
            return (mean, std, elites[: self.num_kept]), (elites[0, 0], returns)

        mean, std = shift(start.mean), self.init_std * start.half_range
        last = draw(mean, std, noise[0, : self.num_kept])[:, -1:]
        kept = jnp.concatenate([state.kept[:, 1:], last], axis=1)

        (mean, _, kept), (best_actions, returns) = jax.lax.scan(refine, (mean, std, kept), noise)
        info = summarise(returns)
        action = jnp.where(info["fallback"], mean[0], best_actions[-1])
        return Plan(action, ICEMState(start._replace(mean=mean), kept), info)
