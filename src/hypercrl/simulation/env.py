"""A MuJoCo simulation of one task as a Gymnasium environment.

A suite subclasses `MujocoEnv` with three short methods: place the bodies at a reset, read the
state, and advance the physics under one action. Stepping, clipping, reward, time limit,
saving and restoring, and rendering are the same for all and written here once.
"""

import abc
import functools
from typing import Any, ClassVar

import equinox as eqx
import gymnasium
import mujoco
import numpy as np

from hypercrl.errors import UserError
from hypercrl.simulation.rendering import Camera, open_renderer, render
from hypercrl.types import Reward, Spec

# Everything that the next step depends on, also the solver's warm start.
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


@functools.cache
def _compiled_reward():
    return eqx.filter_jit(lambda reward, s, a, n: reward(s, a, n))


class MujocoEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """Base of every simulated task; observations and actions are float32 vectors."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        model: mujoco.MjModel,
        spec: Spec,
        reward: Reward,
        camera: Camera,
        render_mode: str | None = None,
    ):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(
                f"The render mode '{render_mode}' is not offered; choose 'rgb_array' or none."
            )
        self.model = model
        self.data = mujoco.MjData(model)
        self.suite_spec = spec
        self.reward = reward
        self.camera = camera
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (spec.state_dim,), np.float32
        )
        self._action_low = np.asarray(spec.action_low, np.float32)
        self._action_high = np.asarray(spec.action_high, np.float32)
        self.action_space = gymnasium.spaces.Box(self._action_low, self._action_high)
        self._renderer: mujoco.Renderer | None = None
        self._num_steps = 0
        self._observation = np.zeros(spec.state_dim, np.float32)

    @abc.abstractmethod
    def place(self, rng: np.random.Generator) -> None:
        """Put `self.data` (already reset) into a start pose drawn from the task's distribution."""

    @abc.abstractmethod
    def observe(self) -> np.ndarray:
        """The state vector of the current simulation state."""

    @abc.abstractmethod
    def advance(self, action: np.ndarray) -> None:
        """Run the physics for one control step under a clipped action."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.place(self.np_random)
        mujoco.mj_forward(self.model, self.data)
        self._num_steps = 0
        self._observation = self._read()
        return self._observation.copy(), {}

    def step(self, action):
        action = np.clip(np.asarray(action, np.float32), self._action_low, self._action_high)
        before = self._observation
        self.advance(action)
        self._observation = self._read()
        self._num_steps += 1
        reward = float(_compiled_reward()(self.reward, before, action, self._observation))
        truncated = self._num_steps >= self.suite_spec.episode_length
        return self._observation.copy(), reward, False, truncated, {}

    def render(self):
        if self.render_mode is None:
            return None
        if self._renderer is None:
            self._renderer = open_renderer(self.model, self.camera)
        return render(self._renderer, self.data, self.camera)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that decides how the simulation goes on, as plain arrays."""
        physics = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, physics, _STATE)
        return {"physics": physics, "num_steps": np.array(self._num_steps)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a state from `get_state`."""
        mujoco.mj_setState(self.model, self.data, np.asarray(state["physics"]), _STATE)
        mujoco.mj_forward(self.model, self.data)
        # mj_forward overwrites the warm start; the next step must begin from the saved one.
        mujoco.mj_setState(self.model, self.data, np.asarray(state["physics"]), _STATE)
        self._num_steps = int(state["num_steps"])
        self._observation = self._read()

    def _read(self) -> np.ndarray:
        return np.asarray(self.observe(), np.float32)
