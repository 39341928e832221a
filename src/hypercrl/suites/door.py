"""Open doors with three kinds of handles, turned either way round (Section V-B).

The arm moves its tool in position and orientation and opens and closes its gripper. A bar is
only pulled; a round knob or a lever must first be turned, clockwise or counter-clockwise, before
a latch lets go of the door. What opens one door keeps another shut.

State, in the paper's order (26 numbers): angle and velocity of the door, angle and velocity of
the handle, the tool's offset from the handle (along the world's axes, as actions are), its
orientation relative to the handle's (a quaternion, 1 where it should be for opening), the
gripper's opening, seven joint angles, seven joint velocities.
"""

import functools

import equinox as eqx
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.low_rank_hypernet import LowRankHypernet
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Angle, Difference, Encoding, Quaternion
from hypercrl.errors import UserError
from hypercrl.learning.training import Training
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.presets import LAPTOP_METHODS, Preset, Schedule
from hypercrl.registry import suites
from hypercrl.simulation.door_scene import TURN_RANGE, Door, build_door
from hypercrl.simulation.env import MujocoEnv
from hypercrl.simulation.panda import Gains, Panda
from hypercrl.simulation.rendering import Camera
from hypercrl.types import Reward, Spec, Suite, Task

PAPER_DOORS = (
    Door("pull"),
    Door("knob", direction=-1),
    Door("lever", direction=-1),
    Door("knob", direction=1),
    Door("lever", direction=1),
)
# Longer sequences continue with handles from the paper's, all alike probable, on other doors.
HEIGHT_RANGE = (0.9, 1.1)  # m, of the handle; uniform
MASS_RANGE = (5.0, 20.0)  # kg, of the leaf; log-uniform
DAMPING_RANGE = (0.8, 3.2)  # N m s/rad, of the hinge; log-uniform
DOOR_SEED = 0
MAX_TASKS = 100

HANDLE_NAMES = {"pull": "pull handle", "knob": "round knob", "lever": "lever"}
DIRECTION_NAMES = {-1: " clockwise", 0: "", 1: " counter-clockwise"}

UNLATCHING_ANGLE = 0.5  # rad, of the handle: beyond it the door is free
SHUT_ANGLE = 0.01  # rad, of the door: below it the latch can catch
START_NOISE = 0.02  # rad, standard deviation of every joint angle
SUCCESS_ANGLE = 0.2  # rad, of the door

SPEC = Spec(
    state_dim=26,
    action_dim=7,  # translation, rotation vector, gripper
    action_low=(-1.0,) * 7,
    action_high=(1.0,) * 7,
    episode_length=200,
    encoding=Encoding(
        (
            Angle(1),  # door
            Difference(1),
            Angle(1),  # handle
            Difference(1),
            Difference(3),  # tool relative to the handle
            Quaternion(),
            Difference(1),  # gripper
            Angle(7),  # joints
            Difference(7),
        )
    ),
)
DOOR, HANDLE, OFFSET, ORIENTATION = 0, 2, slice(4, 7), slice(7, 11)

# Half as many torques a second as on the table: physics steps of 4 ms, five to a torque.
GAINS = Gains(steps_per_tick=5, ticks=5)
CAMERA = Camera(lookat=(0.22, -0.12, 0.92), distance=1.45, azimuth=134, elevation=-14)

LAPTOP = Preset(
    schedule=Schedule(
        exploration_beta=2.0,  # white noise touches the handle but does nothing with it
        steps_per_task=15_000,
        updates=400,
        retest_episodes=3,
    ),
    # A Gaussian head starts a new door as sure of itself as it was of the last one, and unlearns
    # that for thousands of updates.
    network=Network(
        hidden=(128, 128, 128, 128),
        scale_targets=True,
        decay=5e-4,  # or it learns the few openings of a door by heart, and predicts no other
    ),
    hypernet=LowRankHypernet(),  # a chunked one is too weak for networks of this depth
    training=Training(anneal=True),
    planners=(ICEM(horizon=10, num_samples=64, num_elites=8), CEM(horizon=10)),
    methods=LAPTOP_METHODS,
)
PAPER = Preset(
    schedule=Schedule(steps_per_task=60_000, updates=200),
    network=Network(hidden=(200, 200, 200, 200), head="gaussian"),
    hypernet=FullHypernet(hidden=(256, 256), activation="relu"),
    planners=(CEM(horizon=10, num_samples=2_000, init_std=0.5),),
    methods={"hypercrl": {"regulariser": WeightRegulariser(0.5)}},
)


class DoorReward(eqx.Module):
    """−‖x‖ − log(‖x‖² + 0.005) − 5 − ‖q_o‖ + 50 |φ_door| + 20 |φ_handle|.

    x is the tool's offset from the handle and ‖q_o‖ the angle in rad between its orientation and
    the one that can open the door. Both angles are clipped to the ranges of their joints first:
    a limit in a simulation gives way a little, and a planner that leans on it, or a model that
    imagines more of it, would be paid for angles that no door has.
    """

    turn_range: Float[Array, "2"]  # rad, of the handle

    def __call__(self, state, action, next_state):
        offset, orientation = next_state[OFFSET], next_state[ORIENTATION]
        squared = jnp.sum(offset**2)
        error = 2 * jnp.arctan2(jnp.linalg.norm(orientation[1:]), jnp.abs(orientation[0]))
        reach = -jnp.sqrt(squared) - jnp.log(squared + 0.005) - 5.0 - error
        opened = jnp.clip(next_state[DOOR], 0.0, TURN_RANGE)
        turned = jnp.clip(next_state[HANDLE], self.turn_range[0], self.turn_range[1])
        return reach + 50.0 * opened + 20.0 * jnp.abs(turned)


def succeeded(states: Float[np.ndarray, "H 26"]) -> bool:
    """Whether the door was open at any time of an episode."""
    return bool(np.asarray(states)[:, DOOR].max() >= SUCCESS_ANGLE)


def draw_doors(num_tasks: int) -> tuple[Door, ...]:
    """The first `num_tasks` doors; a longer sequence only appends to a shorter one."""
    if not 1 <= num_tasks <= MAX_TASKS:
        raise UserError(f"The suite 'door' offers 1 to {MAX_TASKS} tasks, not {num_tasks}.")
    rng = np.random.default_rng(DOOR_SEED)
    doors = list(PAPER_DOORS)
    while len(doors) < num_tasks:
        kind = PAPER_DOORS[rng.integers(len(PAPER_DOORS))]
        height = rng.uniform(*HEIGHT_RANGE)
        mass, damping = np.exp(rng.uniform(*np.log([MASS_RANGE, DAMPING_RANGE]).T))
        doors.append(
            Door(
                kind.handle,
                kind.direction,
                round(float(height), 3),
                round(float(mass), 1),
                round(float(damping), 2),
            )
        )
    return tuple(doors[:num_tasks])


class DoorEnv(MujocoEnv):
    """The arm in front of one door."""

    def __init__(self, door: Door, reward: Reward, render_mode: str | None = None):
        scene, mount = build_door(door)
        super().__init__(scene.compile(), SPEC, reward, CAMERA, render_mode)
        self.arm = Panda(self.model, self.data, mount, GAINS)
        self._door = self._joint("door")
        self._handle = self._joint("handle_turn") if door.direction else (np.zeros(1), np.zeros(1))
        self._grasp = self.data.site("handle_grasp")

    def place(self, rng: np.random.Generator) -> None:
        self.arm.place()
        self.arm.joints[:] += START_NOISE * rng.standard_normal(len(self.arm.joints))

    def observe(self) -> Float[np.ndarray, "26"]:
        return np.concatenate(
            [
                *self._door,
                *self._handle,
                self.arm.tool_position - self._grasp.xpos,
                self._orientation(),
                [self.arm.opening],
                self.arm.joints,
                self.arm.joint_velocities,
            ]
        )

    def advance(self, action: np.ndarray) -> None:
        # Decided once a control step from angles that the state contains, so that it stays Markov.
        shut = self._door[0] < SHUT_ANGLE
        self.data.eq_active[:] = shut & (np.abs(self._handle[0]) < UNLATCHING_ANGLE)
        self.arm.move(action)

    def _joint(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Views of a joint's angle and velocity."""
        joint = self.data.joint(name)
        return joint.qpos, joint.qvel

    def _orientation(self) -> Float[np.ndarray, "4"]:
        """Of the tool, relative to the pose for opening; of q and −q the one with w ≥ 0."""
        grasp, relative = np.zeros(4), np.zeros(4)
        mujoco.mju_mat2Quat(grasp, self._grasp.xmat)
        mujoco.mju_negQuat(grasp, grasp)
        mujoco.mju_mulQuat(relative, grasp, self.arm.tool_quaternion)
        return relative if relative[0] >= 0 else -relative


@suites.register("door")
def door(num_tasks: int = 5) -> Suite:
    """Tasks differ in the handle and the way it turns, later ones in the door as well."""
    tasks = tuple(_task(one) for one in draw_doors(num_tasks))
    return Suite("door", SPEC, tasks, {"laptop": LAPTOP, "paper": PAPER}, success=succeeded)


def _task(one: Door) -> Task:
    reward = DoorReward(jnp.asarray(one.turn_range, jnp.float32))
    name = HANDLE_NAMES[one.handle] + DIRECTION_NAMES[one.direction]
    if one not in PAPER_DOORS:
        name += f", {one.height:g} m, {one.mass:g} kg, {one.damping:g} N m s/rad"
    return Task(name, functools.partial(DoorEnv, one, reward), reward)
