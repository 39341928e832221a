"""Test episodes and model errors: the matrix r[i, j] and what stands behind it.

Tests draw from streams of their own and so never change the training. What is compared between
runs must not depend on the run: the random policy's returns and the *probe*, the true
trajectories on which models are judged, are drawn from the suite's name and the task's number
alone, so that every method, seed and planner is measured on the same. No learner sees them.
Errors are relative to how much the state changes: 1 is as bad as predicting no change.
"""

import contextlib
import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hypercrl.data.buffer import is_training
from hypercrl.experiment import streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.episode import Trajectory, run_episode
from hypercrl.experiment.records import Evaluation, Phase, RandomPolicy
from hypercrl.planning.rollout import open_loop
from hypercrl.types import Model, Spec, Suite, Transitions, Value

SHARED_SEED = 0  # of everything that runs on a suite have in common
RANDOM_EPISODES = 10  # behind the random policy's return
PROBE_EPISODES = 30  # behind a probe
PROBE_EXPONENT = 2.0  # noise that pushes one way for a while reaches more than white noise
PROBE_HORIZON = 20  # control steps of an open-loop rollout, whatever the planner's horizon
NUM_WINDOWS = 256  # enough for a stable error
SMALLEST_CHANGE = 1e-6  # numbers that change less than this do not enter a relative error


class Probe(NamedTuple):
    """Windows of true trajectories."""

    states: Float[Array, "W h+1 S"]
    actions: Float[Array, "W h A"]


class Tester:
    """Runs test episodes, and keeps the probes that it has needed so far."""

    def __init__(self, config: RunConfig, suite: Suite):
        self._config = config
        self._suite = suite
        self._probe = functools.cache(functools.partial(make_probe, suite))

    def test(
        self,
        model: Model,
        value: Value | None,
        task: int,
        *,
        after: int,
        phase: Phase,
        step: int,
        total_step: int,
        num_episodes: int,
    ) -> Evaluation:
        """Returns, successes and model errors of `task`; episodes start alike at every test."""
        actor = Actor(
            self._suite.tasks[task],
            self._suite.spec,
            self._config.planner,
            seed=self._config.seed,
            purpose=("test", task, after + 1, step),
        )
        with contextlib.closing(actor):
            act = functools.partial(actor.plan, model, value)
            episodes = [run_episode(act) for _ in range(num_episodes)]
        success, measures = self._suite.success, self._suite.measures
        one_step, h_step = probe_errors(model, self._suite.spec, self._probe(task))
        return Evaluation(
            task=task,
            step=step,
            total_step=total_step,
            after=after,
            phase=phase,
            returns=tuple(episode.total for episode in episodes),
            successes=None
            if success is None
            else tuple(bool(success(episode.states)) for episode in episodes),
            measures={
                name: tuple(float(measure(episode.states)) for episode in episodes)
                for name, measure in measures.items()
            },
            one_step=float(one_step),
            h_step=float(h_step),
        )


def measure_random_policy(suite: Suite, task: int) -> RandomPolicy:
    """What a task pays for white Gaussian actions: the same in every run on the suite."""
    episodes = _random_episodes(suite, task, "random", RANDOM_EPISODES, exponent=0.0)
    return RandomPolicy(task, tuple(episode.total for episode in episodes))


def make_probe(suite: Suite, task: int) -> Probe:
    """The same windows for every run on the suite: as long as the longest episode allows."""
    episodes = _random_episodes(suite, task, "probe", PROBE_EPISODES, exponent=PROBE_EXPONENT)
    horizon = min(PROBE_HORIZON, max(len(episode.actions) for episode in episodes))
    starts = [
        (episode, t) for episode in episodes for t in range(len(episode.actions) - horizon + 1)
    ]
    rng = streams.generator(SHARED_SEED, f"{suite.name}:windows", task)
    weights = _eventfulness(suite.spec, starts)
    chosen = [starts[k] for k in rng.choice(len(starts), NUM_WINDOWS, p=weights)]
    states = [episode.states[t : t + horizon + 1] for episode, t in chosen]
    actions = [episode.actions[t : t + horizon] for episode, t in chosen]
    return Probe(jnp.asarray(np.stack(states)), jnp.asarray(np.stack(actions)))


def _eventfulness(spec: Spec, starts: list[tuple[Trajectory, int]]) -> Float[np.ndarray, "_"]:
    """How much happens in the first step from each start, as shares of the whole.

    Where random actions leave most of the world at rest, as a block that the arm seldom meets,
    windows drawn evenly would ask a model about nothing but rest.
    """
    before, after = (
        jnp.asarray(np.stack([episode.states[t + later] for episode, t in starts]))
        for later in (0, 1)
    )
    change = np.asarray(jax.vmap(spec.encoding.difference)(before, after), np.float64)
    spread = np.sqrt((change**2).mean(0))
    moves = np.where(spread > SMALLEST_CHANGE, change / np.maximum(spread, SMALLEST_CHANGE), 0.0)
    happening = (moves**2).mean(1) + np.finfo(np.float64).tiny  # a world at rest is drawn evenly
    return happening / happening.sum()


def _random_episodes(
    suite: Suite, task: int, purpose: str, count: int, *, exponent: float
) -> list[Trajectory]:
    actor = Actor(
        suite.tasks[task],
        suite.spec,
        seed=SHARED_SEED,
        purpose=(f"{suite.name}:{purpose}", task),
        exploration_beta=exponent,
    )
    with contextlib.closing(actor):
        return [run_episode(actor.explore) for _ in range(count)]


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
    error = relative_error(spec, data.states, imagined, data.next_states, used)
    return jnp.where(used.any(), error, jnp.nan)  # a short buffer holds nothing out


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
