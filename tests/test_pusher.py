"""The pusher: the paper's numbers, and a block that moves as its mass says it should."""

import jax.numpy as jnp
import numpy as np
import pytest

from hypercrl.errors import UserError
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.registry import suites
from hypercrl.suites.pusher import (
    GOAL,
    MAX_TASKS,
    PAPER_DENSITIES,
    PusherEnv,
    draw_densities,
    reward,
    succeeded,
)

FORWARD = np.array([1.0, 0.0])


def corners(state):
    return np.asarray(state)[2:].reshape(4, 2)


def centre(state):
    return corners(state).mean(axis=0)


def heading(state):
    """The block's angle about the vertical, in rad."""
    side = corners(state)[2] - corners(state)[0]
    return np.arctan2(side[1], side[0])


def play(env, actions):
    states = [env.reset(seed=0)[0]]
    rewards = []
    for action in actions:
        state, paid, *_ = env.step(action)
        states.append(state)
        rewards.append(paid)
    return np.array(states), np.array(rewards)


def steer(state, centre_of_mass):
    """Push behind the centre of mass, further out where the block has turned or drifted."""
    offset = centre_of_mass + 0.2 * heading(state) + 0.2 * centre(state)[1]
    sideways = offset - state[1]
    remaining = 0.15 - centre(state)[0]
    if remaining < 0.01:
        return np.zeros(2)
    forward = remaining / 0.03
    if abs(sideways) > 0.015:  # move along the block before pushing on
        forward = -1.0 if state[0] > -0.11 else 0.0
    return np.clip([forward, sideways / 0.02], -1.0, 1.0)


def test_start_and_goal_are_the_papers():
    state, _ = PusherEnv(500, 500).reset(seed=0)
    np.testing.assert_allclose(state[:2], (-0.13, 0.0), atol=1e-6)
    start = [(-0.18, -0.08), (-0.18, 0.08), (-0.02, -0.08), (-0.02, 0.08)]
    np.testing.assert_allclose(corners(state), start, atol=1e-6)
    np.testing.assert_allclose(GOAL, [(0.07, -0.08), (0.07, 0.08), (0.23, -0.08), (0.23, 0.08)])


def test_block_has_the_densities_of_its_task():
    half = 0.16 * 0.08 * 0.08
    env = PusherEnv(100, 500)
    body = env.model.body("block")
    assert body.mass[0] == pytest.approx(600 * half)
    assert body.ipos[1] == pytest.approx(0.04 * (100 - 500) / 600)  # green is on the side +y


def test_reward_at_the_goal_and_away_from_it():
    at_goal = jnp.array([-0.1, 0.0, *np.ravel(GOAL)])
    none, full = jnp.zeros(2), jnp.array([0.6, 0.8])
    assert reward(at_goal, none, at_goal) == pytest.approx(4.0)
    assert reward(at_goal, full, at_goal) == pytest.approx(4.0 - 0.25)
    off = at_goal + jnp.array([0.0, 0.0] + [0.03, -0.04] * 4)
    assert reward(at_goal, none, off) == pytest.approx(4 * (1 - np.tanh(0.5)), abs=1e-5)
    assert succeeded(np.stack([off, at_goal])) and not succeeded(np.stack([at_goal, off]))


@pytest.mark.parametrize(("metres", "success"), [(0.014, True), (0.016, False)])
def test_success_is_a_block_within_fifteen_millimetres(metres, success):
    at_goal = np.array([-0.1, 0.0, *np.ravel(GOAL)])
    assert succeeded((at_goal + np.array([0.0, 0.0] + [metres, 0.0] * 4))[None]) is success


def test_straight_push_carries_an_even_block_to_the_goal():
    env = PusherEnv(500, 500)
    state, _ = env.reset(seed=0)
    states, rewards = [state], []
    for _ in range(40):
        state, paid, *_ = env.step(steer(state, 0.0))
        states.append(state)
        rewards.append(paid)
    assert np.all(np.diff([centre(state)[0] for state in states]) > -1e-4)  # never back
    assert rewards[-1] > 3.5 > 1.0 > rewards[0]
    assert succeeded(np.array(states))


@pytest.mark.parametrize("densities", PAPER_DENSITIES)
def test_every_task_is_solved_by_one_who_knows_the_centre_of_mass(densities):
    green, blue = densities
    env = PusherEnv(green, blue)
    state, _ = env.reset(seed=0)
    for _ in range(env.suite_spec.episode_length):
        state, *_ = env.step(steer(state, 0.04 * (green - blue) / (green + blue)))
    assert succeeded(state[None])


def test_block_turns_about_its_heavy_half():
    """Pushed in the middle, the light half runs ahead: +y is green, and turns are about +z."""
    pairs = [(500, 500), (100, 500), (500, 100)]
    turns = {pair: heading(play(PusherEnv(*pair), [FORWARD] * 12)[0][-1]) for pair in pairs}
    assert abs(turns[500, 500]) < 0.02
    assert turns[100, 500] < -0.1
    assert turns[500, 100] > 0.1


def test_off_centre_push_turns_an_even_block_away_from_the_push():
    env = PusherEnv(500, 500)
    aside, ahead = [np.array([0.0, 1.0])] * 2, [FORWARD] * 10
    assert heading(play(env, aside + ahead)[0][-1]) < -0.1
    mirrored = [np.array([0.0, -1.0])] * 2
    assert heading(play(env, mirrored + ahead)[0][-1]) > 0.1


def test_mirrored_block_moves_as_in_a_mirror():
    rng = np.random.default_rng(0)
    actions = np.column_stack([np.ones(8), rng.uniform(-0.3, 0.3, 8)])
    one, _ = play(PusherEnv(100, 500), actions)
    other, _ = play(PusherEnv(500, 100), actions * [1.0, -1.0])
    swapped = [0, 1, 4, 5, 2, 3, 8, 9, 6, 7]  # the corners change sides
    np.testing.assert_allclose(one, other[:, swapped] * np.tile([1.0, -1.0], 5), atol=2e-3)


def test_each_pair_of_tasks_moves_differently():
    ends = [play(PusherEnv(*pair), [FORWARD] * 15)[0][-1] for pair in PAPER_DENSITIES]
    for i, one in enumerate(ends):
        for other in ends[:i]:
            assert np.abs(corners(one) - corners(other)).max() > 0.005


def test_state_is_restored_in_the_middle_of_a_push():
    env, other = PusherEnv(100, 500), PusherEnv(100, 500)
    play(env, [FORWARD] * 7)
    assert env.data.ncon > 0
    other.reset(seed=1)
    other.set_state(env.get_state())
    for _ in range(10):
        np.testing.assert_array_equal(env.step(FORWARD)[0], other.step(FORWARD)[0])
    np.testing.assert_array_equal(env.data.qpos, other.data.qpos)


def test_tool_stays_in_the_workspace():
    env = PusherEnv(500, 500)
    play(env, [np.array([-1.0, 1.0])] * 30)
    np.testing.assert_allclose(env.arm.tool_position[:2], (-0.28, 0.2), atol=0.005)


def test_longer_sequences_append_to_the_papers():
    assert draw_densities(5) == PAPER_DENSITIES
    many = draw_densities(MAX_TASKS)
    assert draw_densities(20) == many[:20]
    assert len(set(many)) == MAX_TASKS
    assert all(100 <= density <= 500 for pair in many for density in pair)


@pytest.mark.parametrize("num_tasks", [0, MAX_TASKS + 1])
def test_impossible_number_of_tasks_is_told(num_tasks):
    with pytest.raises(UserError, match="1 to 100 tasks"):
        suites.get("pusher")(num_tasks)


def test_settings_are_the_papers_and_the_laptops():
    presets = suites.get("pusher")().presets
    assert list(presets) == ["laptop", "paper"]
    paper, laptop = presets["paper"], presets["laptop"]
    assert (paper.schedule.updates, paper.schedule.update_every) == (2_000, 200)
    assert (paper.schedule.random_start, paper.network.decay) == (0, 0.0)
    assert paper.learner("hypercrl").regulariser == WeightRegulariser(0.05)
    assert paper.planner() == CEM(20, 500, 5, num_elites=40, init_std=1.0)
    assert laptop.planner() == ICEM(20, 128, 3, num_elites=16, decay=1.5)
    assert laptop.planner("cem") == paper.planner()
