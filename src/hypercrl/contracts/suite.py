"""What every task of a suite promises. An environment is tried with random and extreme actions."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.contracts.promises import Promise, require
from hypercrl.experiment.actor import check_reward
from hypercrl.registry import learners
from hypercrl.types import Suite, Task

HELD_STEPS = 5  # an extreme action is held: pushing on is harder on a simulation than shaking
TOLERANCE = 1e-5  # of 32-bit numbers that were computed in two ways
REWARD_TOLERANCE = 1e-4  # a simulator may know its state with more digits than it shows


class Steps(NamedTuple):
    """Transitions of consecutive episodes, one row each."""

    states: np.ndarray
    rewards: np.ndarray
    next_states: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


@dataclasses.dataclass(frozen=True)
class Trial:
    """One task of a suite, and what it does when it is driven hard."""

    suite: Suite
    index: int
    num_actions: int = 200  # random ones, and as many extreme ones

    @property
    def task(self) -> Task:
        return self.suite.tasks[self.index]

    def make(self) -> gymnasium.Env:
        return self.task.make(None)

    @functools.cached_property
    def actions(self) -> np.ndarray:
        spec, rng = self.suite.spec, np.random.default_rng(self.index)
        shape = (self.num_actions, spec.action_dim)
        low, high = np.array(spec.action_low), np.array(spec.action_high)
        random = rng.uniform(low, high, shape)
        extreme = np.where(rng.random(shape) < 0.5, low, high).repeat(HELD_STEPS, axis=0)
        return np.concatenate([random, extreme[: self.num_actions]]).astype(np.float32)

    @functools.cached_property
    def steps(self) -> Steps:
        return run(self.make(), self.actions)


def run(env: gymnasium.Env, actions: Sequence[Any] | np.ndarray, seed: int = 0) -> Steps:
    """Play actions from a seeded reset on, and reset again whenever an episode is over."""
    rows = []
    state, _ = env.reset(seed=seed)
    for action in actions:
        next_state, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, reward, next_state, terminated, truncated))
        state = env.reset()[0] if terminated or truncated else next_state
    return Steps(*(np.array(column) for column in zip(*rows, strict=True)))


def go_on(env: gymnasium.Env, actions: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Play actions from where an environment is."""
    return np.array([env.step(action)[0] for action in actions])


def sample_actions(env: gymnasium.Env, count: int, seed: int = 0) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def spaces_agree(trial: Trial) -> None:
    """The environment's spaces are those of the suite's spec."""
    spec, env = trial.suite.spec, trial.make()
    state, _ = env.reset(seed=0)
    for name, found, promised in (
        ("states that its encoding is for", (spec.encoding.state_dim,), (spec.state_dim,)),
        ("observation space", env.observation_space.shape, (spec.state_dim,)),
        ("first observation", np.shape(state), (spec.state_dim,)),
        ("action space", env.action_space.shape, (spec.action_dim,)),
    ):
        require(
            found == promised, f"The {name} are of shape {found}, and the spec says {promised}."
        )
    space = env.action_space
    require(isinstance(space, gymnasium.spaces.Box), f"The action space is {space} and not a Box.")
    for side in ("low", "high"):
        found, promised = getattr(space, side), np.asarray(getattr(spec, f"action_{side}"))
        require(
            np.array_equal(found, promised.astype(found.dtype)),
            f"The action space's {side} is {found}, and the spec says {promised}.",
        )


def simulation_stays_finite(trial: Trial) -> None:
    """States and rewards stay finite under random and extreme actions."""
    for name in ("states", "next_states", "rewards"):
        finite = np.isfinite(getattr(trial.steps, name)).reshape(len(trial.actions), -1).all(1)
        require(finite.all(), f"The {name} are not finite at step {np.argmin(finite)}.")


def reward_can_be_planned_with(trial: Trial) -> None:
    """The reward is one number that JAX can trace."""
    check_reward(trial.task, trial.suite.spec)


def environment_pays_the_known_reward(trial: Trial) -> None:
    """The environment pays the reward that the planner knows, or leaves it to the suite with 0."""
    steps = trial.steps
    if not steps.rewards.any():
        return
    paid_for = (steps.states, trial.actions, steps.next_states)
    known = np.asarray(
        jax.vmap(trial.task.reward)(*(jnp.asarray(x, jnp.float32) for x in paid_for))
    )
    off = np.abs(steps.rewards - known) > REWARD_TOLERANCE * (1.0 + np.abs(known))
    at = int(np.argmax(off))
    require(
        not off.any(),
        f"In {off.sum()} of {len(off)} steps the environment paid something else than the reward "
        f"function says: {steps.rewards[at]:.6g} and not {known[at]:.6g} at step {at}.",
    )


def encoding_carries_one_state_to_the_next(trial: Trial) -> None:
    """The encoding leads from a state to the next by the output that it asks for."""
    encoding, steps = trial.suite.spec.encoding, trial.steps
    states, next_states = (jnp.asarray(x, jnp.float32) for x in (steps.states, steps.next_states))
    targets = jax.vmap(encoding.target)(states, next_states)
    reached = jax.vmap(encoding.advance)(states, targets)
    missed = np.asarray(jax.vmap(encoding.difference)(reached, next_states))
    require(
        targets.shape == (len(states), encoding.num_outputs),
        f"The encoding says {encoding.num_outputs} outputs and makes {targets.shape[1:]}.",
    )
    worst = np.abs(missed).max() / (1.0 + np.abs(next_states).max())
    require(worst < TOLERANCE, f"The encoding misses the next state by {worst:.2g} of its size.")


def episodes_are_not_cut_short(trial: Trial) -> None:
    """No episode is truncated before the length that the suite promises; it may terminate."""
    length, begun = trial.suite.spec.episode_length, 0
    for step in range(len(trial.actions)):
        lasted = step + 1 - begun
        require(
            not trial.steps.truncated[step] or lasted >= length,
            f"An episode was truncated after {lasted} steps, and the suite says {length}.",
        )
        if trial.steps.truncated[step] or trial.steps.terminated[step]:
            begun = step + 1


def episodes_can_be_judged(trial: Trial) -> None:
    """The suite can say of an episode whether it succeeded, and what it measures is finite."""
    suite, steps = trial.suite, trial.steps
    over = np.flatnonzero(steps.terminated | steps.truncated)
    end = int(over[0]) + 1 if len(over) else len(trial.actions)
    episode = np.concatenate([steps.states[:1], steps.next_states[:end]]).astype(np.float32)
    for name, measure in suite.measures.items():
        found = measure(episode)
        require(np.isfinite(found), f"'{name}' of an episode is {found}.")
    found = suite.success and suite.success(episode)
    require(
        found in (None, True, False),
        f"The success of an episode is {found!r} and not True or False.",
    )


def same_seed_same_episode(trial: Trial) -> None:
    """Two environments that are reset with one seed go the same way."""
    first, second = trial.make(), trial.make()
    actions = sample_actions(first, 20)
    one, same = run(first, actions, 3), run(second, actions, 3)
    _require_same("Two episodes of one seed", one.next_states, same.next_states)
    _require_same("Two episodes of one seed", one.rewards, same.rewards)


def reset_forgets_the_episode_before(trial: Trial) -> None:
    """What was done before a seeded reset does not matter after it."""
    used, fresh = trial.make(), trial.make()
    actions = sample_actions(used, 25)
    run(used, [used.action_space.high] * 25, seed=1)  # pyright: ignore[reportAttributeAccessIssue]
    _require_same(
        "An episode in a used and in a new environment",
        run(used, actions, 2).next_states,
        run(fresh, actions, 2).next_states,
    )


def saved_state_restores_bit_for_bit(trial: Trial) -> None:
    """An environment that offers `get_state` goes on from it as if nothing had been."""
    env, other = (trial.make().unwrapped for _ in range(2))
    if not hasattr(env, "get_state"):
        return
    actions = sample_actions(env, min(45, trial.suite.spec.episode_length))
    third = len(actions) // 3
    env.reset(seed=0)
    go_on(env, actions[:third])
    saved: Any = env.get_state()  # pyright: ignore[reportAttributeAccessIssue]
    for name, value in saved.items():
        require(isinstance(value, np.ndarray), f"'{name}' of the saved state is not an array.")
    first = go_on(env, actions[third:])
    other.reset(seed=9)
    for place in (env, other):
        place.set_state(saved)  # pyright: ignore[reportAttributeAccessIssue]
        _require_same("What follows a restored state", go_on(place, actions[third:]), first)


def presets_serve_every_method(trial: Trial) -> None:
    """Every preset can set up every method that is known, and has a planner."""
    for name, preset in trial.suite.presets.items():
        require(preset.planners, f"The preset '{name}' has no planner.")
        for method in learners.names():
            made = preset.learner(method)
            require(
                type(made) is learners.get(method),
                f"The preset '{name}' does not set up '{method}'.",
            )


def _require_same(what: str, one: np.ndarray, other: np.ndarray) -> None:
    same = np.array_equal(one, other)
    first = 0 if same else int(np.argmax((one != other).reshape(len(one), -1).any(1)))
    require(same, f"{what} differ from step {first} on.")


PROMISES: tuple[Promise, ...] = (
    spaces_agree,
    simulation_stays_finite,
    reward_can_be_planned_with,
    environment_pays_the_known_reward,
    encoding_carries_one_state_to_the_next,
    episodes_are_not_cut_short,
    episodes_can_be_judged,
    same_seed_same_episode,
    reset_forgets_the_episode_before,
    saved_state_restores_bit_for_bit,
    presets_serve_every_method,
)
