"""Blocks on a table in front of the arm: what the pusher and the sliding suite share.

The tool moves in the plane at a fixed height; a block is seen as the positions of its four
corners; the reward measures how far they are from where they should be.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from hypercrl.encoding import Encoding
from hypercrl.simulation.env import MujocoEnv
from hypercrl.simulation.panda import MAX_TRANSLATION, Mount, Panda, add_panda
from hypercrl.simulation.rendering import Camera
from hypercrl.types import Reward, Spec

TABLE_HEIGHT = 0.8  # m
# The order in which a state lists the corners of a block: x, y in units of its half width.
CORNERS = ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))

_FRAME_WIDTH = 0.004  # m, of the lines that draw a goal
_FRAME_COLOUR = (0.91, 0.22, 0.18, 0.5)


@dataclass(frozen=True)
class Workspace:
    """Where the tool may be sent, in metres; the arm reaches all of it with the tool upright."""

    x: tuple[float, float]
    y: tuple[float, float]
    stride: float = MAX_TRANSLATION  # per control step at action 1


def planar_spec(num_blocks: int, episode_length: int) -> Spec:
    """Tool relative to the first block, then four corners of each block, x and y each."""
    state_dim = 2 + 8 * num_blocks
    differences = Encoding.differences(state_dim)
    return Spec(state_dim, 2, (-1.0, -1.0), (1.0, 1.0), episode_length, differences)


def square(centre: tuple[float, float], half: float) -> tuple[tuple[float, float], ...]:
    """The corners of an upright square block."""
    return tuple((centre[0] + half * x, centre[1] + half * y) for x, y in CORNERS)


def corner_reward(
    corners: Float[Array, "8"],
    goal: Sequence[tuple[float, float]],
    action: Float[Array, "2"],
    effort: float,
) -> Float[Array, ""]:
    """Σ_i (1 − tanh(10 ‖x_i − g_i‖)) − effort ‖a‖ (Section V-A)."""
    distances = jnp.linalg.norm(corners.reshape(4, 2) - jnp.asarray(goal), axis=-1)
    return jnp.sum(1.0 - jnp.tanh(10.0 * distances)) - effort * jnp.linalg.norm(action)


def load_scene(
    path: Path, goal: Sequence[tuple[float, float]], goal_height: float
) -> mujoco.MjSpec:
    """A suite's objects on the table, with the goal pose drawn as a translucent frame."""
    scene = mujoco.MjSpec.from_file(str(path))
    low = np.array([*np.min(goal, axis=0), TABLE_HEIGHT])
    high = np.array([*np.max(goal, axis=0), TABLE_HEIGHT + goal_height])
    for axis in range(3):
        size = np.full(3, _FRAME_WIDTH / 2)
        size[axis] += (high[axis] - low[axis]) / 2
        for ends in itertools.product((False, True), repeat=2):
            at_high = np.insert(ends, axis, False)
            position = np.where(at_high, high, low)
            position[axis] = (low[axis] + high[axis]) / 2
            # Sites, because nothing can touch them.
            site = scene.worldbody.add_site(type=mujoco.mjtGeom.mjGEOM_BOX, pos=position)
            site.size, site.rgba = size, _FRAME_COLOUR
    return scene


class TabletopEnv(MujocoEnv):
    """A task of the arm in position mode; subclasses say what the state is."""

    def __init__(
        self,
        scene: mujoco.MjSpec,
        spec: Spec,
        reward: Reward,
        camera: Camera,
        mount: Mount,
        workspace: Workspace,
        render_mode: str | None,
    ):
        add_panda(scene, mount)
        super().__init__(scene.compile(), spec, reward, camera, render_mode)
        self.arm = Panda(self.model, self.data, mount)
        self._low, self._high = np.array([workspace.x, workspace.y]).T
        self._stride = workspace.stride

    def place(self, rng: np.random.Generator) -> None:
        # The paper starts every episode from the same pose; blocks are where the scene has them.
        self.arm.place()

    def advance(self, action: np.ndarray) -> None:
        self.arm.push(self._stride * action, self._low, self._high)

    def tool_offset(self, block: str) -> Float[np.ndarray, "2"]:
        """Where the tool is as seen from a block's centre, along the world's axes."""
        return self.arm.tool_position[:2] - self.data.body(block).xpos[:2]

    def corners(self, block: str, half: float) -> Float[np.ndarray, "8"]:
        body = self.data.body(block)
        axes = body.xmat.reshape(3, 3)[:2, :2]
        return (body.xpos[:2] + half * np.array(CORNERS) @ axes.T).ravel()
