"""Imagined futures: what a model says that a sequence of actions leads to.

`imagine` scores many sequences at once for the planners; `open_loop` keeps the states of one,
for h-step model errors. A score is the sum of rewards over the horizon H, the paper's planning
objective, or, with a value of states behind it, the mean over all the horizons up to H:

    1/H Σ_h [ Σ_{j≤h} r_j + V(s_h) ]

The mean rather than the longest one alone, because an error of V then has to be made at every
step of a plan before it decides.

A future that leaves the finite numbers scores minus infinity: NaN compares false with
everything, so left alone it would win an argmax.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hypercrl.types import Model, Reward, Value


def imagine(
    model: Model,
    reward: Reward,
    state: Float[Array, "S"],
    actions: Float[Array, "N H A"],
    value: Value | None = None,
) -> Float[Array, "N"]:
    """Scores of N action sequences from one state; minus infinity where not finite."""

    def advance(carry, actions):
        states, totals, finite = carry
        next_states = jax.vmap(model)(states, actions)
        totals += jax.vmap(reward)(states, actions, next_states)
        # The states are watched too: a bounded reward such as 1 - tanh hides a diverged one.
        finite &= jnp.isfinite(next_states).all(axis=-1)
        prospects = None if value is None else totals + jax.vmap(value)(next_states)
        return (next_states, totals, finite), prospects

    num_samples = len(actions)
    start = (
        jnp.broadcast_to(state, (num_samples, *state.shape)),
        jnp.zeros(num_samples),
        jnp.ones(num_samples, bool),
    )
    (_, totals, finite), prospects = jax.lax.scan(advance, start, actions.swapaxes(0, 1))
    scores = totals if prospects is None else prospects.mean(0)
    return jnp.where(finite & jnp.isfinite(scores), scores, -jnp.inf)


def open_loop(
    model: Model, state: Float[Array, "S"], actions: Float[Array, "H A"]
) -> Float[Array, "H+1 S"]:
    """The states that one action sequence leads through, the first one included."""

    def advance(state, action):
        next_state = model(state, action)
        return next_state, next_state

    _, states = jax.lax.scan(advance, state, actions)
    return jnp.concatenate([state[None], states])


def summarise(
    returns: Float[Array, "rounds N"] | Sequence[Float[Array, "_"]],
) -> dict[str, Float[Array, ""] | Int[Array, ""] | Bool[Array, ""]]:
    """What a planner reports of the returns it imagined, one row a round of sampling.

    `fallback` says that the last round had no finite return, so that the action is the mean
    of the planner's distribution and `expected_return` minus infinity.
    """
    best = returns[-1].max()
    return {
        "expected_return": best,
        "num_nonfinite": jnp.stack([jnp.isneginf(one).sum() for one in returns]).sum(),
        "fallback": jnp.isneginf(best),
    }
