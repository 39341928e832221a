"""One agent in one environment: act, observe, keep the known reward.

The `Actor` is the only place that touches an environment. It checks what comes back, so that a
simulator's NaN stops the run with a sentence instead of poisoning a model.
"""

import time
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np

from hypercrl.errors import UserError
from hypercrl.experiment import streams
from hypercrl.types import Model, Planner, Spec, Task


class Step(NamedTuple):
    """One transition and whether it closed an episode."""

    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    reward: float
    done: bool
    episode_return: float  # so far


class Actor:
    """Runs episodes of one task; every draw is named by (purpose, task, episode, step)."""

    def __init__(
        self,
        task: Task,
        spec: Spec,
        planner: Planner,
        *,
        seed: int,
        purpose: tuple[str, *tuple[int, ...]],
        continuing: bool = False,
        render_mode: str | None = None,
    ):
        self.task = task
        self.spec = spec
        self.planner = planner
        self.env: gymnasium.Env = task.make(render_mode)
        self.continuing = continuing
        self.episode = 0  # episodes started
        self.episode_step = 0
        self.episode_return = 0.0
        self.planning_seconds = 0.0
        self.simulation_seconds = 0.0
        self._seed = seed
        self._purpose = purpose
        self._observation: np.ndarray | None = None
        self._plan_state: Any = None

    @property
    def at_boundary(self) -> bool:
        """Between two episodes: the next step begins with a reset."""
        return self._observation is None

    def plan(self, model: Model) -> Step:
        """One step of model-predictive control."""
        observation = self._ready()
        start = time.perf_counter()
        plan = self.planner.plan(
            self._plan_state,
            model,
            self.task.reward,
            jnp.asarray(observation),
            key=self._key("plan"),
        )
        action = np.asarray(plan.action)
        self._plan_state = plan.state
        self.planning_seconds += time.perf_counter() - start
        return self._execute(action)

    def explore(self) -> Step:
        """One step of the random policy: Gaussian, as wide as half the action range."""
        self._ready()
        low, high = np.array(self.spec.action_low), np.array(self.spec.action_high)
        rng = streams.generator(self._seed, f"{self._name}:explore", *self._counters)
        draw = (high + low) / 2 + (high - low) / 2 * rng.standard_normal(self.spec.action_dim)
        return self._execute(np.clip(draw, low, high).astype(np.float32))

    def close(self) -> None:
        self.env.close()

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint needs; within an episode the environment must offer its state."""
        state: dict[str, Any] = {
            "episode": np.array(self.episode),
            "episode_step": np.array(self.episode_step),
            "episode_return": np.array(self.episode_return),
        }
        if not self.at_boundary:
            env: Any = self.env.unwrapped
            state["observation"] = self._observation
            state["plan"] = self._plan_state
            state["env"] = env.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a state from `get_state`."""
        self.episode = int(state["episode"])
        self.episode_step = int(state["episode_step"])
        self.episode_return = float(state["episode_return"])
        self._observation = None
        if "env" in state:
            env: Any = self.env.unwrapped
            env.set_state(state["env"])
            self._observation = np.asarray(state["observation"])
            self._plan_state = state["plan"]

    def begin_episode(self) -> None:
        """Reset now rather than at the next step."""
        self._ready()

    @property
    def can_save(self) -> bool:
        """Whether `get_state` would tell everything, now."""
        return self.at_boundary or hasattr(self.env.unwrapped, "get_state")

    def _ready(self) -> np.ndarray:
        """The current observation, after a reset where an episode begins."""
        if self._observation is None:
            # Named by task and episode alone: repeated tests of a task start alike.
            seed = streams.integer(self._seed, f"{self._name}:reset", self._scope[0], self.episode)
            observation, _ = self.env.reset(seed=seed)
            self._observation = self._check(observation)
            self._plan_state = self.planner.init(self.spec)
            self.episode += 1
            self.episode_step = 0
            self.episode_return = 0.0
        return self._observation

    def _execute(self, action: np.ndarray) -> Step:
        state = self._ready()
        start = time.perf_counter()
        observation, _, terminated, truncated, _ = self.env.step(action)
        self.simulation_seconds += time.perf_counter() - start
        next_state = self._check(observation)
        reward = self._reward(state, action, next_state)
        self.episode_step += 1
        self.episode_return += reward
        done = bool(terminated or truncated or self.episode_step >= self.spec.episode_length)
        if self.continuing and not terminated:
            # Only the bookkeeping starts anew; the environment goes on where it is.
            self._observation = next_state
            if done:
                total, self.episode_return = self.episode_return, 0.0
                self.episode, self.episode_step = self.episode + 1, 0
                return Step(state, action, next_state, reward, done, total)
        else:
            self._observation = None if done else next_state
        return Step(state, action, next_state, reward, done, self.episode_return)

    def _reward(self, state, action, next_state) -> float:
        bounded = np.clip(action, self.spec.action_low, self.spec.action_high).astype(np.float32)
        reward = np.asarray(_evaluate_reward(self.task.reward, state, bounded, next_state))
        if reward.shape != ():
            raise UserError(
                f"The reward of task '{self.task.name}' has shape {reward.shape}; it must return "
                "one number."
            )
        if not np.isfinite(reward):
            raise UserError(
                f"The reward of task '{self.task.name}' is {float(reward)} in episode "
                f"{self.episode}, step {self.episode_step}; it must be finite."
            )
        return float(reward)

    def _check(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation, np.float32)
        if array.shape != (self.spec.state_dim,):
            raise UserError(
                f"The environment of task '{self.task.name}' returned a state of shape "
                f"{array.shape}; its suite says ({self.spec.state_dim},)."
            )
        if not np.all(np.isfinite(array)):
            raise UserError(
                f"The environment of task '{self.task.name}' returned a state that is not finite "
                f"in episode {self.episode}, step {self.episode_step}."
            )
        return array

    @property
    def _name(self) -> str:
        return self._purpose[0]

    @property
    def _scope(self) -> tuple[int, ...]:
        return self._purpose[1:]

    @property
    def _counters(self) -> tuple[int, ...]:
        return (*self._scope, self.episode, self.episode_step)

    def _key(self, use: str):
        return streams.key(self._seed, f"{self._name}:{use}", *self._counters)


@eqx.filter_jit
def _evaluate_reward(reward, state, action, next_state):
    return reward(state, action, next_state)
