"""The cross-entropy method as the paper plans with it (section III, Algorithm 1).

    repeat:  sample action sequences from N(mean, std²), imagine their returns,
             refit mean and std to the elites
    execute the first action of the best sequence of one more round

Every control step starts afresh from mean 0 and the initial spread, and the Gaussian knows no
bounds, as in the authors' runs. There the controller clips what it receives; here a sequence is
clipped before it is imagined, so that a plan pays for the actions that would be executed.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl import checks
from hypercrl.planning.rollout import summarise
from hypercrl.planning.sampling import SamplingPlanner, clip, sample
from hypercrl.registry import planners
from hypercrl.types import Plan


class Bounds(NamedTuple):
    """The action bounds: all that CEM carries from step to step."""

    low: Float[Array, "A"]
    high: Float[Array, "A"]


@planners.register("cem")
@dataclass(frozen=True)
class CEM(SamplingPlanner):
    """The defaults are the paper's for pusher."""

    num_samples: int = 500
    """Action sequences a round."""
    num_elites: int = 40
    """Best sequences that the distribution is refitted to."""
    num_iterations: int = 5
    """Refits; one more round of samples follows."""
    init_std: float = 1.0
    """Spread before the first refit, in units of the action."""
    execute: Literal["best", "mean"] = "best"
    """The last round's best sequence (paper) or the mean of its elites (PETS, mbrl-lib)."""

    def check(self):
        checks.between(self, 1, self.num_samples, "num_elites")
        checks.above(self, 0, "init_std")
        checks.one_of(self, ("best", "mean"), "execute")

    def init(self, spec):
        return Bounds(jnp.asarray(spec.action_low), jnp.asarray(spec.action_high))

    @property
    def samples_by_round(self):
        return (self.num_samples,) * (self.num_iterations + 1)

    def search(self, state, objective, key):
        bounds: Bounds = state
        sequence = (self.horizon, len(bounds.low))
        # All rounds in one draw: the generator costs less outside the loop.
        noise = jax.random.normal(key, (len(self.samples_by_round), self.num_samples, *sequence))

        def refine(gaussian, noise):
            mean, std = gaussian
            actions = sample(mean, std, noise)
            returns = objective(clip(actions, *bounds))
            elites, elite_returns = select_elites(actions, returns, self.num_elites)
            return refit(mean, std, elites, elite_returns), (elites[0, 0], returns)

        start = (jnp.zeros(sequence), jnp.full(sequence, self.init_std))
        (mean, _), (best_actions, returns) = jax.lax.scan(refine, start, noise)
        info = summarise(returns)
        use_mean = info["fallback"] | (self.execute == "mean")
        action = jnp.where(use_mean, mean[0], best_actions[-1])
        return Plan(clip(action, *bounds), bounds, info)


def select_elites(
    actions: Float[Array, "N H A"], returns: Float[Array, "N"], num_elites: int
) -> tuple[Float[Array, "elites H A"], Float[Array, "elites"]]:
    """The sequences of highest return, best first."""
    elite_returns, indices = jax.lax.top_k(returns, num_elites)
    return actions[indices], elite_returns


def refit(
    mean: Float[Array, "H A"],
    std: Float[Array, "H A"],
    elites: Float[Array, "elites H A"],
    elite_returns: Float[Array, "elites"],
) -> tuple[Float[Array, "H A"], Float[Array, "H A"]]:
    """Mean and spread of the elites whose return is finite; unchanged if there are none."""
    is_finite = jnp.isfinite(elite_returns)
    weights = is_finite / jnp.maximum(is_finite.sum(), 1)
    new_mean = jnp.einsum("n,nha->ha", weights, elites)
    new_std = jnp.sqrt(jnp.einsum("n,nha->ha", weights, (elites - new_mean[None]) ** 2))
    some = is_finite.any()
    return jnp.where(some, new_mean, mean), jnp.where(some, new_std, std)
