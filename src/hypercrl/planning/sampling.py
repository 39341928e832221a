"""What planners share that imagine many action sequences and keep the good ones."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from hypercrl import checks
from hypercrl.errors import UserError
from hypercrl.planning.noise import noise_basis
from hypercrl.planning.rollout import imagine
from hypercrl.types import Plan, Planner, Spec

Objective = Callable[[Float[Array, "N H A"]], Float[Array, "N"]]
"""The scores of action sequences; minus infinity where what is imagined is not finite."""


@dataclass(frozen=True)
class SamplingPlanner(Planner):
    """Rounds of sampling, compiled as one call; `search` is what a planner makes of them."""

    horizon: int = 20
    """Control steps looked ahead."""
    num_samples: int = 128
    """Action sequences a round."""
    num_iterations: int = 3
    """Rounds of sampling; each ends in a better distribution to sample from."""

    def __post_init__(self):
        checks.at_least(self, 1, "horizon", "num_samples", "num_iterations")
        self.check()

    @abc.abstractmethod
    def check(self) -> None:
        """Refuse values of the planner's own fields that make no sense."""

    @property
    def samples_by_round(self) -> tuple[int, ...]:
        """Action sequences of each round."""
        return (self.num_samples,) * self.num_iterations

    @property
    def evaluations_per_action(self):
        return sum(self.samples_by_round) * self.horizon

    @abc.abstractmethod
    def search(self, state: Any, objective: Objective, key: PRNGKeyArray) -> Plan:
        """One plan, traced by JAX. The action and what is scored lie within the bounds."""

    def plan(self, state, model, reward, observation, *, key, value=None):
        return _search(self, state, model, reward, value, jnp.asarray(observation), key)


@eqx.filter_jit
def _search(planner: SamplingPlanner, state, model, reward, value, observation, key) -> Plan:
    return planner.search(
        state, lambda actions: imagine(model, reward, observation, actions, value), key
    )


class WarmStart(NamedTuple):
    """The mean that the last control step's plan has left, and the action bounds."""

    mean: Float[Array, "H A"]
    low: Float[Array, "A"]
    high: Float[Array, "A"]

    @property
    def half_range(self) -> Float[Array, "H A"]:
        """The unit in which noise is measured, for every action of a plan."""
        return jnp.broadcast_to((self.high - self.low) / 2, self.mean.shape)


def start_in_the_middle(planner: Planner, spec: Spec) -> WarmStart:
    """Before the first plan, for planners whose noise is as wide as the action range."""
    low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
    if not np.isfinite([low, high]).all():
        raise UserError(
            f"{type(planner).__name__} scales its noise by the action range, and this suite's "
            "actions are unbounded; give them bounds or plan with 'cem'."
        )
    mean = np.broadcast_to((low + high) / 2, (planner.horizon, len(low)))
    return WarmStart(*(jnp.asarray(x, jnp.float32) for x in (mean, low, high)))


def coloured_noise(
    planner: SamplingPlanner, exponent: float, action_dim: int, key: PRNGKeyArray, knots: int = 0
) -> Float[Array, "rounds N H A"]:
    """All rounds' noise in one draw, correlated along the horizon.

    With knots it is drawn at so many moments only and runs straight from one to the next.
    """
    basis = noise_basis(planner.horizon, exponent, knots)
    rounds, samples, moments = planner.num_iterations, planner.num_samples, basis.shape[1]
    white = draw_in_rows(key, rounds * samples, moments * action_dim)
    white = white.reshape(rounds, samples, moments, action_dim)
    return jnp.einsum("tu,rnua->rnta", basis, white)


def draw_in_rows(key: PRNGKeyArray, rows: int, columns: int) -> Float[Array, "rows columns"]:
    """White noise that may be reshaped afterwards.

    The product with the identity changes no number. Without it XLA moves the reshape into the
    generator, whose innermost loop is then as short as the last axis, and a third as fast.
    """
    drawn = jax.random.normal(key, (rows, columns))
    return jnp.matmul(drawn, jnp.eye(columns), precision="highest")  # not rounded on GPUs either


def sample(
    mean: Float[Array, "H A"],
    std: Float[Array, "H A"],
    noise: Float[Array, "N H A"],
) -> Float[Array, "N H A"]:
    """Action sequences from a Gaussian of one mean and spread."""
    return jax.vmap(lambda one: mean + std * one)(noise)


def clip(
    actions: Float[Array, "*N A"], low: Float[Array, "A"], high: Float[Array, "A"]
) -> Float[Array, "*N A"]:
    """What the bounds leave of some actions."""
    shape = actions.shape
    return jnp.clip(actions, jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape))


def shift(mean: Float[Array, "H A"]) -> Float[Array, "H A"]:
    """A plan one control step later: the executed action is dropped, the last one repeated."""
    return jnp.concatenate([mean[1:], mean[-1:]])
