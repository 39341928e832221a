"""The doors: latches, joint limits, reward, and that the arm can open every one of them."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import plan_with_simulator
from door_experts import GRIPPER, Expert
from hypercrl.registry import suites
from hypercrl.simulation.door_scene import START_DISTANCE, TURN_RANGE
from hypercrl.simulation.panda import MAX_OPENING
from hypercrl.suites.door import (
    DAMPING_RANGE,
    DOOR,
    HANDLE,
    HEIGHT_RANGE,
    MASS_RANGE,
    OFFSET,
    ORIENTATION,
    PAPER_DOORS,
    SHUT_ANGLE,
    SPEC,
    SUCCESS_ANGLE,
    DoorReward,
    draw_doors,
    succeeded,
)

TASKS = range(len(PAPER_DOORS))
LATCHED = [task for task in TASKS if PAPER_DOORS[task].direction]
NAMES = [task.name for task in suites.get("door")().tasks]
IDLE = np.zeros(7, np.float32)
PULL = 60.0  # N m on the hinge: more than the arm brings to bear


def make(task, num_tasks=5, seed=0):
    env = suites.get("door")(num_tasks).tasks[task].make(None)
    env.reset(seed=seed)
    return env


def play(env, expert, num_steps, seed=0):
    """The states of an episode, up to the opening of the door."""
    states = [env.reset(seed=seed)[0]]
    while len(states) <= num_steps and states[-1][DOOR] < SUCCESS_ANGLE:
        states.append(env.step(expert.act(states[-1]))[0])
    return np.array(states)


def turn_by_hand(env, angle):
    env.data.joint("handle_turn").qpos[:] = angle
    mujoco.mj_forward(env.model, env.data)


def test_tasks_are_the_papers_in_its_order():
    assert NAMES == [
        "pull handle",
        "round knob clockwise",
        "lever clockwise",
        "round knob counter-clockwise",
        "lever counter-clockwise",
    ]


@pytest.mark.parametrize("task", TASKS)
def test_gripper_starts_open_in_front_of_the_handle_in_the_pose_for_opening(task):
    env = make(task)
    starts = np.array([env.reset()[0] for _ in range(60)])
    np.testing.assert_allclose(starts[:, OFFSET].mean(0), [START_DISTANCE, 0, 0], atol=0.008)
    np.testing.assert_allclose(starts[:, ORIENTATION].mean(0), [1, 0, 0, 0], atol=0.02)
    np.testing.assert_allclose(starts[:, GRIPPER], MAX_OPENING)
    assert (starts[:, :4] == 0).all()
    assert starts[:, OFFSET].std(0).min() > 0.001


@pytest.mark.parametrize("task", LATCHED)
def test_pulling_without_turning_does_not_open(task):
    expert = Expert(PAPER_DOORS[task], sense=0)
    states = play(make(task), expert, 60)
    assert expert.grasped
    assert np.abs(states[:, DOOR]).max() < SHUT_ANGLE / 10


@pytest.mark.parametrize("task", LATCHED)
def test_turning_the_wrong_way_does_not_open(task):
    expert = Expert(PAPER_DOORS[task], sense=-1, patience=12)
    states = play(make(task), expert, 60)
    assert expert.turned
    assert np.abs(states[:, DOOR]).max() < SHUT_ANGLE / 10
    assert (PAPER_DOORS[task].direction * states[:, HANDLE]).min() > -0.005


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_expert_opens_the_door(task):
    """Turning the right way and pulling opens; 19 of 20 seeded episodes are asked for."""
    env = make(task)
    opened = [succeeded(play(env, Expert(PAPER_DOORS[task]), 60, seed)) for seed in range(20)]
    assert np.mean(opened) >= 0.95


def test_experts_open_the_doors_of_a_longer_sequence():
    doors = draw_doors(20)
    for task in range(len(PAPER_DOORS), len(doors)):
        assert succeeded(play(make(task, len(doors)), Expert(doors[task]), 60)), doors[task]


@pytest.mark.parametrize("task", LATCHED)
def test_latch_lets_go_of_a_turned_handle_and_catches_a_shut_door(task):
    env, direction = make(task), PAPER_DOORS[task].direction
    env.data.joint("door").qfrc_applied[:] = PULL
    assert env.step(IDLE)[0][DOOR] < SHUT_ANGLE / 10
    turn_by_hand(env, 0.45 * direction)
    assert env.step(IDLE)[0][DOOR] < SHUT_ANGLE / 10
    turn_by_hand(env, 0.55 * direction)
    ajar = env.step(IDLE)[0][DOOR]
    assert ajar > SHUT_ANGLE
    # A handle let go while the door is ajar does not draw it shut.
    turn_by_hand(env, 0.0)
    assert env.step(IDLE)[0][DOOR] > ajar
    env.data.joint("door").qpos[:] = env.data.joint("door").qvel[:] = 0
    mujoco.mj_forward(env.model, env.data)
    for _ in range(5):
        state, *_ = env.step(IDLE)
    assert state[DOOR] < SHUT_ANGLE / 10


def test_door_with_a_pull_handle_has_no_latch():
    env = make(0)
    env.data.joint("door").qfrc_applied[:] = PULL
    assert env.step(IDLE)[0][DOOR] > SHUT_ANGLE


@pytest.mark.parametrize("task", TASKS)
def test_nothing_moves_when_nobody_touches_it(task):
    """No handle turns under its own weight, which would open the latch in the end."""
    env = make(task)
    states = np.array([env.step(IDLE)[0] for _ in range(SPEC.episode_length)])
    assert np.abs(states[:, :4]).max() < 1e-4
    np.testing.assert_allclose(states[-1, OFFSET], states[0, OFFSET], atol=0.01)


@pytest.mark.parametrize("task", LATCHED)
def test_limits_are_too_stiff_to_lean_on(task):
    """A lasting torque beyond the gripper's moves a handle by milliradians past its end."""
    env, direction = make(task), PAPER_DOORS[task].direction
    for torque, end in ((10.0 * direction, TURN_RANGE * direction), (-10.0 * direction, 0.0)):
        env.data.joint("handle_turn").qfrc_applied[:] = torque
        for _ in range(20):
            state, *_ = env.step(IDLE)
        assert abs(state[HANDLE] - end) < 0.005


@pytest.mark.parametrize("task", LATCHED)
def test_restoring_brings_back_an_open_latch(task):
    env, expert = make(task), Expert(PAPER_DOORS[task])
    state, _ = env.reset(seed=0)
    while not 0.02 < state[DOOR] < SUCCESS_ANGLE:
        state, *_ = env.step(expert.act(state))
    saved = env.get_state()
    assert not env.data.eq_active.any()
    other = make(task, seed=7)
    assert other.data.eq_active.all()
    other.set_state(saved)
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 7))
    for action in actions:
        one, same = env.step(action), other.step(action)
        np.testing.assert_array_equal(one[0], same[0])
        assert one[1] == same[1]
    np.testing.assert_array_equal(env.data.eq_active, other.data.eq_active)


def test_what_follows_depends_on_the_simulation_and_not_on_the_last_command():
    """Gripper and tool goals are relative to what is measured, so the state stays Markov."""
    env, other = make(1), make(1)
    env.step(np.ones(7, np.float32))
    other.set_state(env.get_state())
    other.data.ctrl[:] = 0.01
    action = np.full(7, 0.3, np.float32)
    np.testing.assert_allclose(env.step(action)[0], other.step(action)[0], atol=1e-6)


def state_with(door=0.0, handle=0.0, offset=(0.0, 0.0, 0.0), orientation=(1.0, 0.0, 0.0, 0.0)):
    state = np.zeros(SPEC.state_dim, np.float32)
    state[DOOR], state[HANDLE] = door, handle
    state[OFFSET], state[ORIENTATION] = offset, orientation
    return jnp.asarray(state)


def pay(task, **state):
    reward = DoorReward(jnp.asarray(PAPER_DOORS[task].turn_range))
    return float(reward(state_with(), jnp.zeros(7), state_with(**state)))


def test_reward_is_the_papers():
    at_handle = -np.log(0.005) - 5
    np.testing.assert_allclose(pay(1), at_handle, rtol=1e-5)
    near = -0.05 - np.log(0.0025 + 0.005) - 5
    np.testing.assert_allclose(pay(1, offset=(0.03, 0, -0.04)), near, rtol=1e-4)
    np.testing.assert_allclose(pay(1, door=0.3), at_handle + 15, rtol=1e-5)
    np.testing.assert_allclose(pay(1, handle=-0.5), at_handle + 10, rtol=1e-5)
    np.testing.assert_allclose(pay(3, handle=0.5), at_handle + 10, rtol=1e-5)


def test_reward_measures_the_turn_away_from_the_pose_for_opening():
    turned = np.array([np.cos(0.2), 0.0, np.sin(0.2), 0.0])
    for orientation in (turned, -turned, 1.1 * turned):
        np.testing.assert_allclose(pay(0) - pay(0, orientation=orientation), 0.4, rtol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_reward_pays_for_no_angle_beyond_the_joints_ranges(task):
    direction = PAPER_DOORS[task].direction
    end = direction * TURN_RANGE
    assert pay(task, handle=end + 0.3 * direction) == pay(task, handle=end)
    assert pay(task, handle=-0.3 * direction) == pay(task)
    assert pay(task, door=TURN_RANGE + 0.3) == pay(task, door=TURN_RANGE)
    assert pay(task, door=-0.3) == pay(task)
    assert pay(0, handle=0.3) == pay(0)


def test_one_compiled_reward_serves_every_door():
    traces = []

    @jax.jit
    def evaluate(reward, state):
        traces.append(None)
        return reward(state, jnp.zeros(7), state)

    values = {
        float(evaluate(task.reward, state_with(handle=0.5)))
        for task in suites.get("door")(20).tasks
    }
    assert len(values) == 2  # a handle at 0.5 rad counts for those that turn that way
    assert len(traces) == 1


def test_success_is_a_door_that_was_open():
    states = np.zeros((201, SPEC.state_dim))
    states[80, DOOR] = 0.19  # rad; the paper's door is open at 0.2
    assert not succeeded(states)
    states[80, DOOR] = 0.201
    assert succeeded(states)


def test_state_sees_the_tool_from_the_handle():
    env = make(2)
    turn_by_hand(env, -0.7)
    state, data = env.observe(), env.data
    grasp = data.site("handle_grasp")
    np.testing.assert_allclose(state[OFFSET], data.site("panda_tool").xpos - grasp.xpos)
    relative = grasp.xmat.reshape(3, 3).T @ data.site("panda_tool").xmat.reshape(3, 3)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, state[ORIENTATION])
    np.testing.assert_allclose(matrix.reshape(3, 3), relative, atol=1e-9)
    assert state[HANDLE] == -0.7


def test_drawn_doors_lie_in_the_documented_ranges():
    doors = draw_doors(100)
    assert doors[:5] == PAPER_DOORS
    assert doors[:20] == draw_doors(20)
    kinds = {(door.handle, door.direction) for door in doors[5:]}
    assert kinds == {(door.handle, door.direction) for door in PAPER_DOORS}
    for name, (low, high) in {
        "height": HEIGHT_RANGE,
        "mass": MASS_RANGE,
        "damping": DAMPING_RANGE,
    }.items():
        values = np.array([getattr(door, name) for door in doors[5:]])
        assert low <= values.min() < values.max() <= high
        assert np.ptp(values) > 0.8 * (high - low)


def test_drawn_doors_are_built_as_drawn():
    doors = draw_doors(12)
    for task in (5, 8, 11):
        env, door = make(task, 12), doors[task]
        assert env.data.body("handle_handle").xpos[2] == pytest.approx(door.height)
        assert env.model.body("door").mass[0] == pytest.approx(door.mass)
        assert env.model.dof_damping[env.model.joint("door").dofadr[0]] == door.damping


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_planning_with_the_simulator_opens_the_door(task):
    """Reward, actions and horizon lead there when the model is perfect."""
    suite, budget = suites.get("door")(), plan_with_simulator.Budget()
    states = plan_with_simulator.play(suite, task, 60, budget).states
    assert np.linalg.norm(states[:, OFFSET], axis=1).min() < START_DISTANCE
    assert succeeded(states)
