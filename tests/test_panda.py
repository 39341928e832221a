"""The arm against its data sheet, and its controller against what it promises."""

import math

import mujoco
import numpy as np
import pytest

from hypercrl.errors import UserError
from hypercrl.simulation.panda import (
    MAX_FINGER_MOVE,
    MAX_OPENING,
    MAX_ROTATION,
    MAX_TRANSLATION,
    NUM_JOINTS,
    READY,
    TOOL_DOWN,
    Mount,
    Panda,
    add_panda,
    solve_joints,
)
from hypercrl.suites import pusher, slide

# The manufacturer's table in Craig's convention: a (m), d (m), alpha (rad) of joints 1 to 7.
DENAVIT_HARTENBERG = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
FLANGE_TO_TOOL = 0.107 + 0.1034  # m beyond joint 7: flange, then tool centre point
HAND_TURN = -math.pi / 4  # rad, how the hand is bolted to the flange
LIMITS = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)
TORQUES = (87, 87, 87, 87, 12, 12, 12)  # N m
READY_TOOL = (0.3069, 0.0, 0.4869)  # m, in the base's frame


def make_arm(mount=None):
    """The arm alone, at its start pose."""
    mount = mount or Mount(position=(0.0, 0.0, 0.0), tool_position=READY_TOOL)
    scene = mujoco.MjSpec()
    add_panda(scene, mount)
    model = scene.compile()
    arm = Panda(model, mujoco.MjData(model), mount)
    arm.place()
    mujoco.mj_forward(model, arm.data)
    return arm


def denavit_hartenberg(q):
    """The tool's pose [4, 4] from the data sheet."""
    pose = np.eye(4)
    for (a, d, alpha), theta in zip(DENAVIT_HARTENBERG, q, strict=True):
        ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
        pose = pose @ np.array(
            [
                [ct, -st, 0, a],
                [st * ca, ct * ca, -sa, -d * sa],
                [st * sa, ct * sa, ca, d * ca],
                [0, 0, 0, 1],
            ]
        )
    c, s = np.cos(HAND_TURN), np.sin(HAND_TURN)
    return pose @ np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, FLANGE_TO_TOOL], [0, 0, 0, 1]])


def rotation_error(arm, quaternion):
    """What is left to turn, as a rotation vector in the world's frame."""
    turn = np.zeros(3)
    mujoco.mju_subQuat(turn, np.asarray(quaternion, float), arm.tool_quaternion)
    return arm.data.site("panda_tool").xmat.reshape(3, 3) @ turn


def margin_to_limits(arm):
    low, high = np.array(LIMITS).T
    return min((arm.joints - low).min(), (high - arm.joints).min())


def tilt(arm):
    """Degrees between the tool's axis and straight down."""
    down = -arm.data.site("panda_tool").xmat.reshape(3, 3)[2, 2]
    return math.degrees(math.acos(min(1.0, down)))


def test_kinematics_are_the_manufacturers():
    arm, rng = make_arm(), np.random.default_rng(0)
    for _ in range(20):
        arm.joints[:] = [rng.uniform(*limits) for limits in LIMITS]
        mujoco.mj_kinematics(arm.model, arm.data)
        expected = denavit_hartenberg(arm.joints)
        np.testing.assert_allclose(arm.tool_position, expected[:3, 3], atol=1e-6)
        rotation = arm.data.site("panda_tool").xmat.reshape(3, 3)
        np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-6)


def test_limits_are_the_manufacturers():
    model = make_arm().model
    for i in range(NUM_JOINTS):
        np.testing.assert_allclose(model.joint(f"panda_joint{i + 1}").range, LIMITS[i])
        np.testing.assert_allclose(
            model.actuator(f"panda_joint{i + 1}").ctrlrange, (-TORQUES[i], TORQUES[i])
        )


def test_ready_pose_points_down():
    arm = make_arm()
    np.testing.assert_allclose(arm.start, READY, atol=1e-3)
    np.testing.assert_allclose(arm.tool_position, READY_TOOL, atol=1e-4)
    np.testing.assert_allclose(rotation_error(arm, TOOL_DOWN), 0.0, atol=1e-4)


def test_arm_carries_its_own_weight():
    arm = make_arm()
    for _ in range(30):
        arm.move(np.zeros(7))
    np.testing.assert_allclose(arm.tool_position, READY_TOOL, atol=1e-3)
    assert np.abs(arm.joint_velocities).max() < 1e-3


def test_controller_tracks_fifty_reachable_poses():
    """From wherever the last target left it, by actions alone."""
    arm, rng = make_arm(), np.random.default_rng(0)
    scratch = mujoco.MjData(arm.model)
    first = int(arm.model.joint("panda_joint1").qposadr[0])
    for _ in range(50):
        scratch.qpos[first : first + NUM_JOINTS] = READY + rng.uniform(-0.5, 0.5, NUM_JOINTS)
        mujoco.mj_kinematics(arm.model, scratch)
        position = scratch.site("panda_tool").xpos.copy()
        quaternion = scratch.body("panda_hand").xquat.copy()
        for _ in range(40):
            translation = (position - arm.tool_position) / MAX_TRANSLATION
            rotation = rotation_error(arm, quaternion) / MAX_ROTATION
            arm.move(np.clip(np.concatenate([translation, rotation, [0.0]]), -1.0, 1.0))
        assert np.linalg.norm(position - arm.tool_position) <= 0.005
        assert np.linalg.norm(rotation_error(arm, quaternion)) <= math.radians(2)


@pytest.mark.parametrize("axis", range(3))
def test_actions_are_along_the_worlds_axes(axis):
    """Also for an arm that looks elsewhere; the goal is not passed within a control step."""
    mount = Mount((0.3, -0.2, 0.1), (0.3, -0.6, 0.6), yaw=-math.pi / 2)
    arm, action = make_arm(mount), np.zeros(7)
    action[axis] = 0.5
    arm.move(action)
    moved = arm.tool_position - mount.tool_position
    assert np.argmax(np.abs(moved)) == axis
    assert 0 < moved[axis] <= 0.5 * MAX_TRANSLATION
    arm = make_arm(mount)
    arm.move(np.roll(action, 3))
    turned = -rotation_error(arm, mount.tool_quaternion)
    assert np.argmax(np.abs(turned)) == axis
    assert 0 < turned[axis] <= 0.5 * MAX_ROTATION


def test_gripper_opens_and_closes_from_where_it_is():
    arm = make_arm()
    action = np.zeros(7)
    action[6] = 1.0
    arm.move(action)
    assert arm.opening == pytest.approx(MAX_FINGER_MOVE, abs=0.003)
    for _ in range(3):
        arm.move(action)
    assert arm.opening == pytest.approx(MAX_OPENING, abs=0.001)
    for _ in range(5):
        arm.move(-action)
    assert arm.opening == pytest.approx(0.0, abs=0.001)


def test_hand_stays_upright_and_level_under_random_pushes():
    arm, rng = make_arm(pusher.MOUNT), np.random.default_rng(0)
    low, high = np.array([pusher.WORKSPACE.x, pusher.WORKSPACE.y]).T
    tilts, heights = [], []
    for _ in range(200):
        arm.push(MAX_TRANSLATION * rng.uniform(-1, 1, 2), low, high)
        tilts.append(tilt(arm))
        heights.append(arm.tool_position[2])
    assert max(tilts) < 8
    assert np.abs(np.array(heights) - pusher.MOUNT.tool_position[2]).max() < 0.015


def test_stretched_arm_is_not_thrown_about():
    """Extreme actions lead out of reach; with a full 6×6 inertia joints pass 18 rad/s there."""
    arm, rng = make_arm(), np.random.default_rng(0)
    reach, speed = 0.0, 0.0
    for _ in range(60):
        action = np.where(rng.random(7) < 0.5, -1.0, 1.0)
        for _ in range(5):
            arm.move(action)
            reach = max(reach, float(np.linalg.norm(arm.tool_position)))
            speed = max(speed, float(np.abs(arm.joint_velocities).max()))
    assert reach > 1.0
    assert speed < 13


@pytest.mark.parametrize("suite", [pusher, slide])
def test_no_joint_limit_is_met_anywhere_on_the_table(suite):
    """Straight pushes from one end of the workspace to the other, along three lanes."""
    low, high = np.array([suite.WORKSPACE.x, suite.WORKSPACE.y]).T
    arm = make_arm(suite.MOUNT)
    for lane in (low[1], 0.0, high[1]):
        arm.place()
        mujoco.mj_forward(arm.model, arm.data)
        for forward in (-1.0, 1.0):
            for _ in range(35):
                sideways = (lane - arm.tool_position[1]) / MAX_TRANSLATION
                action = np.clip([forward, sideways], -1.0, 1.0)
                arm.push(MAX_TRANSLATION * action, low, high)
                assert margin_to_limits(arm) > 0.05
        np.testing.assert_allclose(arm.tool_position[:2], (high[0], lane), atol=0.005)


def test_arm_reaches_where_a_door_would_be():
    """Pose control from another base: approach along −x with the fingers one above the other."""
    sideways = (0.5, 0.5, -0.5, -0.5)
    mount = Mount(
        position=(0.6, 0.2, 0.3),
        tool_position=(0.195, -0.35, 1.0),
        yaw=math.pi,
        tool_quaternion=sideways,
        posture=(0.91, 0.18, 0.20, -1.42, -1.62, 2.03, 0.81),
        opening=MAX_OPENING,
    )
    arm = make_arm(mount)
    np.testing.assert_allclose(arm.tool_position, mount.tool_position, atol=1e-5)
    axes = arm.data.site("panda_tool").xmat.reshape(3, 3)
    np.testing.assert_allclose(axes[:, 1:], [[0, -1], [0, 0], [1, 0]], atol=1e-5)
    assert margin_to_limits(arm) > 0.3
    assert arm.opening == MAX_OPENING


def test_pose_out_of_reach_is_told():
    arm = make_arm()
    data = mujoco.MjData(arm.model)
    with pytest.raises(UserError, match="cannot reach"):
        solve_joints(arm.model, data, (2.0, 0.0, 0.5), TOOL_DOWN, np.array(READY))
