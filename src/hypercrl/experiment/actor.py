"""One agent in one environment: act, observe, keep the known reward.

The `Actor` is the only one that steps an environment, for training, tests, probes and videos
alike. It bounds every action first: the one that is executed is also the one that is paid for,
recorded and learnt from. It checks what comes back, so that a simulator's NaN stops the run with
a sentence instead of poisoning a model.

An environment may offer `get_state()`, a dictionary of arrays with everything that decides how
it goes on, and `set_state(state)`. A run can then be saved within an episode, otherwise between
two episodes only. One whose attribute `reward` is the task's own pays it itself, and its word is
taken, so that the reward of a step is evaluated once.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from jaxtyping import Float

from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.episode import Step
from hypercrl.experiment.stopwatch import Stopwatch
from hypercrl.planning.noise import MAX_EXPONENT, coloured_basis
from hypercrl.types import Model, Planner, Spec, Task, Value

_exploration_basis = functools.cache(coloured_basis)


class Actor:
    """Runs episodes of one task; every draw is named by (purpose, task, episode, step)."""

    def __init__(
        self,
        task: Task,
        spec: Spec,
        planner: Planner | None = None,
        *,
        seed: int,
        purpose: tuple[str, *tuple[int, ...]],
        episode_length: int | None = None,
        continuing: bool = False,
        exploration_beta: float = 0.0,
        render_mode: str | None = None,
        stopwatch: Stopwatch | None = None,
    ):
        """Without a planner it only explores, or executes what it is told."""
        if not 0 <= exploration_beta <= MAX_EXPONENT:
            raise UserError(
                f"exploration_beta must be from 0 to {MAX_EXPONENT:g}, not {exploration_beta}."
            )
        self.task = task
        self.spec = spec
        self.planner = planner
        self.episode_length = episode_length or spec.episode_length
        self.continuing = continuing  # go on without a reset where an episode's time is over
        self.exploration_beta = exploration_beta
        self.episode = 0  # episodes started
        self.episode_step = 0
        self.episode_return = 0.0
        self._stopwatch = stopwatch or Stopwatch()
        self._seed = seed
        self._purpose = purpose
        self._low, self._high = np.array([spec.action_low, spec.action_high], np.float32)
        self._observation: np.ndarray | None = None
        self._plan_state: Any = None
        with self._explain():
            self.env: gymnasium.Env = task.make(render_mode)
        self._env_pays = getattr(self.env, "reward", None) is task.reward

    @property
    def at_boundary(self) -> bool:
        """Between two episodes: the next step begins with a reset."""
        return self._observation is None

    @property
    def steps_done(self) -> int:
        """In the episode that the next step belongs to."""
        return 0 if self.at_boundary else self.episode_step

    @property
    def current_episode(self) -> int:
        """The number of the one that the next step belongs to, from 1."""
        return self.episode + self.at_boundary

    def plan(self, model: Model, value: Value | None = None) -> Step:
        """One step of model-predictive control."""
        # A planner of one's own need not know of values as long as there is none.
        behind = {} if value is None else {"value": value}
        assert self.planner is not None
        observation = self.begin()
        with self._stopwatch.planning:
            plan = self.planner.plan(
                self._plan_state,
                model,
                self.task.reward,
                jnp.asarray(observation),
                key=streams.key(self._seed, f"{self._name}:plan", *self._counters),
                **behind,
            )
            action = self._check_action(np.asarray(plan.action))
        self._plan_state = plan.state
        return self.execute(action)

    def explore(self) -> Step:
        """One step of the random policy: Gaussian, as wide as half the action range."""
        self.begin()
        low, high = np.array(self.spec.action_low), np.array(self.spec.action_high)
        return self.execute((high + low) / 2 + (high - low) / 2 * self._exploration_noise())

    def begin(self) -> Float[np.ndarray, "S"]:
        """The current observation, after a reset where an episode begins."""
        if self._observation is None:
            # Named by task and episode alone: repeated tests of a task start alike.
            seed = streams.integer(self._seed, f"{self._name}:reset", self._scope[0], self.episode)
            with self._explain():
                observation, _ = self.env.reset(seed=seed)
            self.episode += 1
            self.episode_step = 0
            self.episode_return = 0.0
            self._observation = self._check_state(observation)
            self._plan_state = self.planner and self.planner.init(self.spec)
        return self._observation

    def execute(self, action: Float[np.ndarray, "A"]) -> Step:
        """Do something within the action bounds, and see what comes of it."""
        state = self.begin()
        action = np.clip(np.asarray(action, np.float32), self._low, self._high)
        with self._stopwatch.simulation, self._explain():
            observation, paid, terminated, truncated, _ = self.env.step(action)
        next_state = self._check_state(observation)
        if not self._env_pays:
            paid = _evaluate_reward(self.task.reward, state, action, next_state)
        reward = self._check_reward(paid)
        self.episode_step += 1
        self.episode_return += reward
        # An environment that is never reset says that its time is over at every step from then on.
        over = bool(terminated or (truncated and not self.continuing))
        done = over or self.episode_step >= self.episode_length
        step = Step(state, action, next_state, reward, done, self.episode, self.episode_return)
        self._observation = next_state
        if done and self.continuing and not terminated:
            # Only the bookkeeping starts anew; the environment goes on where it is.
            self.episode += 1
            self.episode_step = 0
            self.episode_return = 0.0
        elif done:
            self._observation = None
        return step

    def end_episode(self, last: Step) -> Step:
        """Let the episode end with the step just taken, before its time."""
        self._observation = None
        return last._replace(done=True)

    def close(self) -> None:
        self.env.close()

    @property
    def can_save(self) -> bool:
        """Whether `get_state` would tell everything, now."""
        return self.at_boundary or _tells_its_state(self.env, self.episode_length)

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint needs; between episodes that is next to nothing."""
        state: dict[str, Any] = {
            "episode": np.array(self.episode),
            "episode_step": np.array(self.episode_step),
            "episode_return": np.array(self.episode_return),
        }
        if not self.at_boundary:
            state["observation"] = self._observation
            state["plan"] = self._plan_state
            with self._explain():
                env: Any = self.env.unwrapped
                state["env"] = {name: np.array(value) for name, value in env.get_state().items()}
        return state

    def set_state(self, arrays: checkpoint.Arrays) -> None:
        """Go back to where the flattened arrays of a `get_state` were taken."""
        if "observation" in arrays:
            self.begin()  # an environment expects a reset before anything else
            with self._explain():
                env: Any = self.env.unwrapped
                env.set_state(checkpoint.section(arrays, "env"))
            self._observation = arrays["observation"]
            self._plan_state = checkpoint.unflatten(
                self.planner and self.planner.init(self.spec), checkpoint.section(arrays, "plan")
            )
        self.episode = int(arrays["episode"])
        self.episode_step = int(arrays["episode_step"])
        self.episode_return = float(arrays["episode_return"])

    def _exploration_noise(self) -> np.ndarray:
        """This step's part of the episode's noise, which is drawn in one go."""
        rng = streams.generator(self._seed, f"{self._name}:explore", *self._scope, self.episode)
        white = rng.standard_normal((self.episode_length, self.spec.action_dim))
        if self.exploration_beta == 0:
            return white[self.episode_step]
        basis = _exploration_basis(self.episode_length, self.exploration_beta)
        return basis[self.episode_step] @ white

    def _check_reward(self, reward: Any) -> float:
        if not np.isfinite(reward):
            raise UserError(f"The reward of task '{self.task.name}' is {reward} {self._where}.")
        return float(reward)

    def _check_action(self, action: np.ndarray) -> np.ndarray:
        if action.shape != (self.spec.action_dim,) or not np.all(np.isfinite(action)):
            raise UserError(
                f"The planner {type(self.planner).__name__} returned {action} {self._where}; an "
                f"action must be {self.spec.action_dim} finite numbers."
            )
        return action

    def _check_state(self, observation: Any) -> np.ndarray:
        with self._explain():
            array = np.array(observation, np.float32)
        if array.shape != (self.spec.state_dim,):
            raise UserError(
                f"The environment of task '{self.task.name}' returned a state of shape "
                f"{array.shape}; its suite says ({self.spec.state_dim},)."
            )
        if not np.all(np.isfinite(array)):
            raise UserError(
                f"The environment of task '{self.task.name}' returned a state that is not finite "
                f"{self._where}."
            )
        return array

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Whatever goes wrong inside an environment, in one sentence."""
        try:
            yield
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # to end the program is not for it to decide
            reason = (str(error) or "no reason given").splitlines()[0].rstrip(".")
            raise UserError(
                f"The environment of task '{self.task.name}' failed {self._where} with "
                f"{type(error).__name__}: {reason}."
            ) from error

    @property
    def _where(self) -> str:
        return f"in episode {self.episode}, step {self.episode_step}"

    @property
    def _name(self) -> str:
        return self._purpose[0]

    @property
    def _scope(self) -> tuple[int, ...]:
        return self._purpose[1:]

    @property
    def _counters(self) -> tuple[int, ...]:
        return (*self._scope, self.episode, self.episode_step)


def _tells_its_state(env: gymnasium.Env, episode_length: int) -> bool:
    """Whether `get_state` of the innermost environment leaves nothing out."""
    while isinstance(env, gymnasium.Wrapper):
        limit = env.spec.max_episode_steps if env.spec is not None else None
        # A time limit counts steps, but before it is reached the actor has closed the episode.
        idle = isinstance(env, TimeLimit) and limit is not None and limit >= episode_length
        if not (idle or isinstance(env, (OrderEnforcing, PassiveEnvChecker))):
            return False
        env = env.env
    return hasattr(env, "get_state") and hasattr(env, "set_state")


def check_reward(task: Task, spec: Spec) -> None:
    """Make sure, before anything is run, that a task's reward is one number that JAX can trace."""
    state = jax.ShapeDtypeStruct((spec.state_dim,), jnp.float32)
    action = jax.ShapeDtypeStruct((spec.action_dim,), jnp.float32)
    try:
        reward = jax.eval_shape(lambda s, a, n: task.reward(s, a, n), state, action, state)
    except (Exception, SystemExit) as error:
        reason = (str(error) or "no reason given").splitlines()[0].rstrip(".")
        raise UserError(
            f"The reward of task '{task.name}' must be a function of (state, action, next_state) "
            f"that JAX can trace: {reason}."
        ) from error
    shape = getattr(reward, "shape", None)
    if shape != ():
        found = type(reward).__name__ if shape is None else f"an array of shape {shape}"
        raise UserError(f"The reward of task '{task.name}' must be one number and not {found}.")


@eqx.filter_jit
def _evaluate_reward(reward, state, action, next_state):
    return reward(state, action, next_state)
