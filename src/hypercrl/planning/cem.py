"""The cross-entropy method as the paper plans with it (section III, Algorithm 1).

    repeat:  sample action sequences from N(mean, std²), imagine their returns,
             refit mean and std to the elites
    execute the first action of the best sequence of one more round

Every control step starts afresh from mean 0 and the initial spread. Actions are unbounded
inside the plan, as in the authors' runs, where the controller clips what it receives.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.errors import UserError
from hypercrl.planning.rollout import imagine, summarise
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner


class Bounds(NamedTuple):
    """The action bounds: all that CEM carries from step to step."""

    low: Float[Array, "A"]
    high: Float[Array, "A"]


@planners.register("cem")
@dataclass(frozen=True)
class CEM(Planner):
    """The defaults are the paper's for pusher."""

    horizon: int = 20
    """Control steps looked ahead."""
    num_samples: int = 500
    """Action sequences a round."""
    num_elites: int = 40
    """Best sequences that the distribution is refitted to."""
    num_iterations: int = 5
    """Refits; one more round of samples follows."""
    init_std: float = 1.0
    """Spread before the first refit, in units of the action."""
    clip: bool = False
    """Clip the sampled actions to their bounds."""
    execute: Literal["best", "mean"] = "best"
    """The last round's best sequence (paper) or the mean of its elites (PETS, mbrl-lib)."""

    def __post_init__(self):
        if self.horizon < 1 or self.num_iterations < 0 or not self.init_std > 0:
            raise UserError(
                "CEM needs a horizon of at least 1, no negative num_iterations and a positive "
                f"init_std; it was given {self.horizon}, {self.num_iterations}, {self.init_std}."
            )
        if not 1 <= self.num_elites <= self.num_samples:
            raise UserError(
                "CEM needs 1 <= num_elites <= num_samples; it was given "
                f"{self.num_elites} elites of {self.num_samples} samples."
            )
        if self.execute not in ("best", "mean"):
            raise UserError(f"CEM executes 'best' or 'mean', not '{self.execute}'.")

    def init(self, spec):
        return Bounds(jnp.asarray(spec.action_low), jnp.asarray(spec.action_high))

    def plan(self, state, model, reward, observation, *, key):
        return _plan(self, state, model, reward, jnp.asarray(observation), key)

    @property
    def evaluations_per_action(self):
        return (self.num_iterations + 1) * self.num_samples * self.horizon


@eqx.filter_jit
def _plan(planner: CEM, bounds: Bounds, model, reward, observation, key) -> Plan:
    sequence = (planner.horizon, len(bounds.low))
    # All rounds in one draw: the generator costs less outside the loop.
    noise = jax.random.normal(key, (planner.num_iterations + 1, planner.num_samples, *sequence))

    def refine(gaussian, noise):
        mean, std = gaussian
        actions = mean + std * noise
        if planner.clip:
            actions = jnp.clip(actions, *bounds)
        returns = imagine(model, reward, observation, actions)
        elites, elite_returns = select_elites(actions, returns, planner.num_elites)
        return refit(mean, std, elites, elite_returns), (elites[0, 0], returns)

    start = (jnp.zeros(sequence), jnp.full(sequence, planner.init_std))
    (mean, _), (best_actions, returns) = jax.lax.scan(refine, start, noise)
    info = summarise(returns)
    if planner.execute == "mean":
        return Plan(mean[0], bounds, info)
    return Plan(jnp.where(info["fallback"], mean[0], best_actions[-1]), bounds, info)


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
    new_std = jnp.sqrt(jnp.einsum("n,nha->ha", weights, (elites - new_mean) ** 2))
    some = is_finite.any()
    return jnp.where(some, new_mean, mean), jnp.where(some, new_std, std)
