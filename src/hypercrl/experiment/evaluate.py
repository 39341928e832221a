"""Test episodes and model errors: the matrix r[i, j] and what stands behind it.

Model errors of an old task are measured on its *probe*: windows of the test episodes that were
run when the task had just been learnt. Probes belong to the evaluation; no learner sees them.
Errors are relative to how much the state changes, so that 1 is as bad as predicting no change.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hypercrl.data.buffer import is_training
from hypercrl.experiment.actor import Actor
from hypercrl.planning.rollout import open_loop
from hypercrl.types import Model, Spec, Transitions

NUM_WINDOWS = 256  # enough for a stable error, few enough to keep in a checkpoint
SMALLEST_CHANGE = 1e-6  # numbers that change less than this do not enter a relative error


class Probe(NamedTuple):
    """Windows of true trajectories."""

    states: Float[Array, "W h+1 S"]
    actions: Float[Array, "W h A"]


@dataclass(frozen=True)
class Trajectory:
    """One test episode."""

    states: np.ndarray  # [L + 1, S]
    actions: np.ndarray  # [L, A]
    rewards: np.ndarray  # [L]

    @property
    def total(self) -> float:
        return float(self.rewards.sum())


def run_episode(actor: Actor, model: Model) -> Trajectory:
    """One episode under the planner."""
    steps = [actor.plan(model)]
    while not steps[-1].done:
        steps.append(actor.plan(model))
    return Trajectory(
        np.stack([*(s.state for s in steps), steps[-1].next_state]),
        np.stack([s.action for s in steps]),
        np.array([s.reward for s in steps]),
    )


def make_probe(
    trajectories: list[Trajectory], horizon: int, rng: np.random.Generator
) -> Probe | None:
    """Windows of `horizon` steps, drawn uniformly; None where every episode was shorter."""
    starts = [
        (i, t)
        for i, trajectory in enumerate(trajectories)
        for t in range(len(trajectory.actions) - horizon + 1)
    ]
    if not starts:
        return None
    chosen = [starts[k] for k in rng.integers(len(starts), size=NUM_WINDOWS)]
    states = [trajectories[i].states[t : t + horizon + 1] for i, t in chosen]
    actions = [trajectories[i].actions[t : t + horizon] for i, t in chosen]
    return Probe(np.stack(states), np.stack(actions))  # pyright: ignore[reportArgumentType]


@eqx.filter_jit
def probe_errors(
    model: Model, spec: Spec, probe: Probe
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """One-step and h-step (open loop) relative errors of a model."""
    imagined = jax.vmap(open_loop, in_axes=(None, 0, 0))(model, probe.states[:, 0], probe.actions)
    one = relative_error(spec, probe.states[:, 0], imagined[:, 1], probe.states[:, 1])
    last = relative_error(spec, probe.states[:, 0], imagined[:, -1], probe.states[:, -1])
    return one, last


@eqx.filter_jit
def validation_error(model: Model, spec: Spec, data: Transitions) -> Float[Array, ""]:
    """One-step relative error on the held-out transitions of a buffer."""
    rows = jnp.arange(len(data.states))
    used = ~is_training(rows) & (rows < data.count)
    imagined = jax.vmap(model)(data.states, data.actions)
    return relative_error(spec, data.states, imagined, data.next_states, used)


def relative_error(
    spec: Spec,
    states: Float[Array, "N S"],
    imagined: Float[Array, "N S"],
    actual: Float[Array, "N S"],
    used: Bool[Array, " N"] | None = None,
) -> Float[Array, ""]:
    """Root mean square over the numbers of the state, each relative to its own change."""
    weight = jnp.ones(len(states)) if used is None else used.astype(jnp.float32)
    count = jnp.maximum(weight.sum(), 1)
    difference = jax.vmap(spec.encoding.difference)
    change = (difference(states, actual) ** 2 * weight[:, None]).sum(0) / count
    error = (difference(imagined, actual) ** 2 * weight[:, None]).sum(0) / count
    moves = change > SMALLEST_CHANGE**2
    ratios = jnp.where(moves, error / jnp.where(moves, change, 1.0), 0.0)
    return jnp.sqrt(ratios.sum() / jnp.maximum(moves.sum(), 1))
