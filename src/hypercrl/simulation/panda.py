"""The Panda arm inside a simulation, and its operational-space control.

The tool is servoed towards a pose goal with the joint torques (Khatib, 1987)

    τ = J_pᵀ Λ_p (k_p e_p − k_d v) + J_oᵀ Λ_o (k_p e_o − k_d ω) + Nᵀ M q̈_posture + b(q, q̇),

Λ_p = (J_p M⁻¹ J_pᵀ)⁻¹ and Λ_o likewise. The inertias of position and orientation are decoupled
as in the paper's simulator: the full 6×6 inertia holds the hand a little straighter in the
middle of the workspace but throws the arm about where it is stretched. N projects the pull
towards a resting posture into the null space of the task, and the bias b compensates gravity
and Coriolis forces.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from jaxtyping import Float

from hypercrl.errors import UserError

NUM_JOINTS = 7
MAX_OPENING = 0.04  # m, each finger
# Franka's "ready" pose, q in rad: far from every joint limit, tool pointing down.
READY = (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4)
TOOL_DOWN = (0.0, 1.0, 0.0, 0.0)  # (w, x, y, z): approach along −z, fingers open along y

MAX_TRANSLATION = 0.05  # m per control step at action 1
MAX_ROTATION = 0.5  # rad per control step at action 1
MAX_FINGER_MOVE = 0.02  # m per finger and control step at action 1

_XML = Path(__file__).with_name("panda.xml")


@dataclass(frozen=True)
class Mount:
    """Where the arm stands: its base in the world, and the tool pose it starts from."""

    position: tuple[float, float, float]  # m
    tool_position: tuple[float, float, float]  # m, in the world
    yaw: float = 0.0  # rad about the vertical
    tool_quaternion: tuple[float, float, float, float] = TOOL_DOWN
    posture: tuple[float, ...] = READY  # rad, where the search for the start pose begins
    opening: float = 0.0  # m per finger at the start


@dataclass(frozen=True)
class Gains:
    """Stiffness and timing of the controller; dampings are critical."""

    kp: float = 150.0  # 1/s², as in the paper's simulator
    kp_posture: float = 10.0  # 1/s²
    steps_per_tick: int = 5  # physics steps of 2 ms that share one torque
    ticks: int = 10  # per control step of 0.1 s


# Added to J M⁻¹ Jᵀ in 1/kg: under 0.1 % of its usual size, bounds the inertia near singular poses.
_INERTIA_DAMPING = 1e-4


def add_panda(scene: mujoco.MjSpec, mount: Mount) -> None:
    """Put the arm into a scene that is not compiled yet."""
    half = mount.yaw / 2
    frame = scene.worldbody.add_frame(
        pos=mount.position, quat=[math.cos(half), 0.0, 0.0, math.sin(half)]
    )
    scene.attach(mujoco.MjSpec.from_file(str(_XML)), prefix="panda_", frame=frame)


class Panda:
    """One arm in one simulation: where its tool is, and how it is moved.

    Nothing outlives a control step except the simulation's own state, so that saving and
    restoring the latter is enough. Arrays are views of the simulation or scratch space that is
    allocated once: the controller runs a hundred times a second.
    """

    def __init__(
        self, model: mujoco.MjModel, data: mujoco.MjData, mount: Mount, gains: Gains | None = None
    ):
        self.model, self.data = model, data
        self.mount, self.gains = mount, gains or Gains()
        self._tool = model.site("panda_tool").id
        first = model.joint("panda_joint1")
        self._q = data.qpos[int(first.qposadr[0]) :][:NUM_JOINTS]
        self._joints = slice(int(first.dofadr[0]), int(first.dofadr[0]) + NUM_JOINTS)
        fingers = int(model.joint("panda_left_finger").qposadr[0])
        self._fingers = data.qpos[fingers : fingers + 2]
        motor = model.actuator("panda_joint1").id
        self._torque = data.ctrl[motor : motor + NUM_JOINTS]
        gripper = model.actuator("panda_left_finger").id
        self._finger_goal = data.ctrl[gripper : gripper + 2]
        self.tool_position = data.site_xpos[self._tool]
        self.tool_quaternion = data.xquat[model.body("panda_hand").id]
        self._tool_matrix = data.site_xmat[self._tool].reshape(3, 3)
        self._kp, self._kd = self.gains.kp, 2 * math.sqrt(self.gains.kp)
        self._kp_posture = self.gains.kp_posture
        self._kd_posture = 2 * math.sqrt(self.gains.kp_posture)
        self._velocity, self._bias = data.qvel, data.qfrc_bias
        self._allocate(model.nv)
        self.start = self._solve_start()
        self.posture = self.start

    def _allocate(self, nv: int) -> None:
        self._jacobian = np.zeros((6, nv))
        self._linear, self._angular = self._jacobian[:3], self._jacobian[3:]
        self._weighted = np.zeros((6, nv))  # rows of J M⁻¹
        self._mobility = np.zeros((6, 6))  # J M⁻¹ Jᵀ
        self._decoupled = np.zeros((6, 6))
        self._blocks = np.kron(np.eye(2), np.ones((3, 3)))
        self._damping = _INERTIA_DAMPING * np.eye(6)
        self._posture_pull = np.zeros(nv)
        self._posture_torque = np.zeros(nv)
        self._wrench, self._correction = np.zeros(6), np.zeros(6)
        self._error, self._rotation = np.zeros(6), np.zeros(3)

    @property
    def joints(self) -> Float[np.ndarray, "7"]:
        """The joint angles in rad; a view that may be written."""
        return self._q

    @property
    def joint_velocities(self) -> Float[np.ndarray, "7"]:
        return self.data.qvel[self._joints]

    @property
    def opening(self) -> float:
        """How far each finger is open, in m, as measured."""
        return float(self._fingers.mean())

    def place(self) -> None:
        """Restore the stored start pose, at rest."""
        self._q[:] = self.start
        self._fingers[:] = self.mount.opening
        self._finger_goal[:] = self.mount.opening

    def push(
        self,
        offset: Float[np.ndarray, "2"],
        low: Float[np.ndarray, "2"],
        high: Float[np.ndarray, "2"],
    ) -> None:
        """Position mode: send the tool `offset` metres along x and y for one control step.

        Height, orientation and gripper keep the goals of the start pose, not what was achieved,
        or they would drift. The goal stays within the workspace from `low` to `high`.
        """
        goal = np.array(self.mount.tool_position)
        goal[:2] = np.clip(self.tool_position[:2] + offset, low, high)
        self.servo(goal, np.array(self.mount.tool_quaternion), self.mount.opening)

    def move(self, action: Float[np.ndarray, "7"]) -> None:
        """Pose mode: translation, rotation vector in the world's frame, and gripper.

        Goals are relative to what is measured, so that the state alone decides what follows.
        """
        position = self.tool_position + MAX_TRANSLATION * action[:3]
        turn, quaternion = np.zeros(4), np.zeros(4)
        vector = MAX_ROTATION * np.asarray(action[3:6], float)
        angle = float(np.linalg.norm(vector))
        mujoco.mju_axisAngle2Quat(turn, vector / max(angle, 1e-12), angle)
        mujoco.mju_mulQuat(quaternion, turn, self.tool_quaternion)
        opening = np.clip(self.opening + MAX_FINGER_MOVE * action[6], 0.0, MAX_OPENING)
        self.servo(position, quaternion, float(opening))

    def servo(
        self, position: Float[np.ndarray, "3"], quaternion: Float[np.ndarray, "4"], opening: float
    ) -> None:
        """Run the physics for one control step with fixed goals."""
        self._finger_goal[:] = opening
        rest = self.gains.steps_per_tick - 1
        for _ in range(self.gains.ticks):
            # The torque is set between the two halves of a physics step, where positions,
            # velocities and inertias are those of the present and need not be computed again.
            mujoco.mj_step1(self.model, self.data)
            self._set_torque(position, quaternion)
            mujoco.mj_step2(self.model, self.data)
            mujoco.mj_step(self.model, self.data, rest)
        mujoco.mj_kinematics(self.model, self.data)

    def _set_torque(self, position, quaternion) -> None:
        model, data, jacobian = self.model, self.data, self._jacobian
        mujoco.mj_jacSite(model, data, self._linear, self._angular, self._tool)
        mujoco.mj_solveM(model, data, self._weighted, jacobian)
        np.dot(jacobian, self._weighted.T, out=self._mobility)
        self._mobility += self._damping
        np.multiply(self._mobility, self._blocks, out=self._decoupled)
        self._measure_error(position, quaternion)
        pull = self._kp * self._error - self._kd * (jacobian @ self._velocity)
        _solve(self._wrench, self._decoupled, pull)
        self._posture_pull[self._joints] = (
            self._kp_posture * (self.posture - self._q)
            - self._kd_posture * self._velocity[self._joints]
        )
        # Nᵀ M q̈ = M q̈ − Jᵀ Λ J q̈: what the posture would do to the tool is taken back.
        mujoco.mj_mulM(model, data, self._posture_torque, self._posture_pull)
        _solve(self._correction, self._mobility, jacobian @ self._posture_pull)
        torque = (self._wrench - self._correction) @ jacobian
        torque += self._posture_torque
        torque += self._bias
        self._torque[:] = torque[self._joints]

    def _measure_error(self, position, quaternion) -> None:
        np.subtract(position, self.tool_position, out=self._error[:3])
        mujoco.mju_subQuat(self._rotation, quaternion, self.tool_quaternion)
        np.dot(self._tool_matrix, self._rotation, out=self._error[3:])

    def _solve_start(self) -> Float[np.ndarray, "7"]:
        """Joint angles of the start pose, in a copy of the simulation."""
        copy = mujoco.MjData(self.model)
        posture = np.asarray(self.mount.posture)
        return solve_joints(
            self.model, copy, self.mount.tool_position, self.mount.tool_quaternion, posture
        )


def _solve(result, matrix, vector) -> None:
    """Solve a small positive definite system; MuJoCo's Cholesky spares NumPy's overhead."""
    mujoco.mju_cholFactor(matrix, 0.0)
    mujoco.mju_cholSolve(result, matrix, vector)


def solve_joints(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    position: tuple[float, float, float] | Float[np.ndarray, "3"],
    quaternion: tuple[float, float, float, float] | Float[np.ndarray, "4"],
    posture: Float[np.ndarray, "7"],
) -> Float[np.ndarray, "7"]:
    """Inverse kinematics: damped Gauss-Newton steps from `posture`; overwrites `data`."""
    tolerance, damping, max_iterations = 1e-7, 1e-4, 200
    tool, hand, first = (
        model.site("panda_tool").id,
        model.body("panda_hand").id,
        model.joint("panda_joint1"),
    )
    q = data.qpos[int(first.qposadr[0]) :][:NUM_JOINTS]
    columns = slice(int(first.dofadr[0]), int(first.dofadr[0]) + NUM_JOINTS)
    ranges = model.jnt_range[first.id : first.id + NUM_JOINTS]
    jacobian, error, turn = np.zeros((6, model.nv)), np.zeros(6), np.zeros(3)
    q[:] = posture
    for _ in range(max_iterations):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        error[:3] = position - data.site_xpos[tool]
        mujoco.mju_subQuat(turn, np.asarray(quaternion, float), data.xquat[hand])
        error[3:] = data.site_xmat[tool].reshape(3, 3) @ turn
        if np.abs(error).max() < tolerance:
            return q.copy()
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], tool)
        j = jacobian[:, columns]
        q += j.T @ np.linalg.solve(j @ j.T + damping * np.eye(6), error)
        np.clip(q, ranges[:, 0], ranges[:, 1], out=q)
    raise UserError(f"The arm cannot reach the tool pose {tuple(position)}, {tuple(quaternion)}.")
