"""iCEM, the sample-efficient cross-entropy method (Pinneri et al. 2020).

What it adds to CEM: noise correlated in time, a mean that is shifted from one control step to
the next, elites kept from round to round and from step to step, momentum in the refit, actions
clipped to their bounds before they are imagined, and the mean itself tried in the last round.

The publication lets the number of samples decay from round to round; `decay` does. Without it
all rounds are one compiled loop.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl import checks
from hypercrl.errors import UserError
from hypercrl.planning.cem import refit, select_elites
from hypercrl.planning.noise import MAX_EXPONENT
from hypercrl.planning.rollout import summarise
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
    decay: float = 1.0
    """Each round has so many times fewer samples than the one before, but two for each elite."""
    knots: int = 0
    """Noise runs straight between so many moments of the horizon; 0 draws it for every step."""
    execute: Literal["best", "mean"] = "best"
    """The last round's best sequence, or the mean of its elites, which owes less to the model's
    errors. While a task is being learnt it is the best: that explores."""

    def check(self):
        checks.between(self, 1, self.num_samples, "num_elites")
        checks.between(self, 0, self.num_elites, "num_kept")
        checks.between(self, 0, MAX_EXPONENT, "noise_beta")
        checks.at_least(self, 0, "momentum")
        checks.below(self, 1, "momentum")
        checks.above(self, 0, "init_std")
        checks.at_least(self, 1, "decay")
        checks.at_least(self, 0, "knots")
        checks.one_of(self, ("best", "mean"), "execute")
        if self.knots == 1:
            raise UserError("ICEM's knots must be 0 or at least 2: noise runs between them.")

    def init(self, spec):
        start = start_in_the_middle(self, spec)
        return ICEMState(start, jnp.broadcast_to(start.mean, (self.num_kept, *start.mean.shape)))

    @property
    def exploring(self):
        return dataclasses.replace(self, execute="best")

    @property
    def samples_by_round(self):
        fewest = min(2 * self.num_elites, self.num_samples)
        counts = (self.num_samples / self.decay**i for i in range(self.num_iterations))
        return tuple(max(round(count), fewest) for count in counts)

    def search(self, state, objective, key):
        start: WarmStart = state.start
        noise = coloured_noise(self, self.noise_beta, len(start.low), key, self.knots)
        # A sample without noise is the mean itself; the first rows give way to the kept elites.
        noise = noise.at[-1, self.samples_by_round[-1] - 1].set(0.0)

        def draw(mean, std, noise):
            return clip(sample(mean, std, noise), start.low, start.high)

        def refine(carry, noise):
            mean, std, kept = carry
            actions = draw(mean, std, noise).at[: self.num_kept].set(kept)
            returns = objective(actions)
            elites, elite_returns = select_elites(actions, returns, self.num_elites)
            new_mean, new_std = refit(mean, std, elites, elite_returns)
            mean = self.momentum * mean + (1 - self.momentum) * new_mean
            std = self.momentum * std + (1 - self.momentum) * new_std
            return (mean, std, elites[: self.num_kept]), (elites[0, 0], returns)

        def refine_fewer_and_fewer(carry, noise):
            rounds = []
            for of_round, count in zip(noise, self.samples_by_round, strict=True):
                carry, found = refine(carry, of_round[:count])
                rounds.append(found)
            return carry, tuple(zip(*rounds, strict=True))

        mean, std = shift(start.mean), self.init_std * start.half_range
        last = draw(mean, std, noise[0, : self.num_kept])[:, -1:]
        kept = jnp.concatenate([state.kept[:, 1:], last], axis=1)

        loop = refine_fewer_and_fewer if self.decay > 1 else functools.partial(jax.lax.scan, refine)
        (mean, _, kept), (best_actions, returns) = loop((mean, std, kept), noise)
        info = summarise(returns)
        use_mean = info["fallback"] | (self.execute == "mean")
        action = jnp.where(use_mean, mean[0], best_actions[-1])
        return Plan(action, ICEMState(start._replace(mean=mean), kept), info)
