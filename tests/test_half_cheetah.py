"""The half-cheetah against Gymnasium's own, and what a scaled part changes."""

import gymnasium
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from hypercrl.registry import suites
from hypercrl.suites.half_cheetah import PARTS
from plan_with_simulator import Budget, play

TOTAL_MASS = 14.0  # kg


def make(task):
    env = suites.get("half_cheetah")().tasks[task].make(None)
    env.reset(seed=0)
    return env


@pytest.fixture
def original(tmp_path, monkeypatch):
    # MuJoCo logs its complaint about Gymnasium's file into the working folder.
    monkeypatch.chdir(tmp_path)
    env = gymnasium.make("HalfCheetah-v5")
    env.reset(seed=0)
    yield env.unwrapped
    env.close()


def test_standard_body_moves_and_pays_as_gymnasiums(original):
    env = make(0)
    original.set_state(env.data.qpos.copy(), env.data.qvel.copy())
    env.action_space.seed(0)
    for _ in range(50):
        action = env.action_space.sample()
        state, reward, *_ = env.step(action)
        observation, known, _, _, info = original.step(action)
        np.testing.assert_allclose(state[1:], observation, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state[0], info["x_velocity"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(reward, known, rtol=1e-4, atol=1e-4)


def test_state_is_velocity_positions_velocities():
    env = make(0)
    state = env.step(np.full(6, 0.3))[0]
    assert state.shape == (18,)
    np.testing.assert_allclose(state[1:9], env.data.qpos[1:], rtol=1e-6)
    np.testing.assert_allclose(state[9:], env.data.qvel, rtol=1e-6)


def test_velocity_is_predicted_as_a_value_and_the_rest_as_differences():
    encoding = suites.get("half_cheetah")().spec.encoding
    before, after = jnp.arange(18.0), jnp.arange(18.0) ** 2
    target = np.asarray(encoding.target(before, after))
    assert target[0] == after[0]
    np.testing.assert_allclose(target[1:], (after - before)[1:])


@pytest.mark.parametrize(("task", "part"), [(1, "torso"), (2, "thighs"), (3, "shins"), (4, "feet")])
def test_one_part_is_a_quarter_larger_and_the_total_mass_the_same(task, part):
    standard, scaled = make(0).model, make(task).model
    for index in range(standard.ngeom):
        name = standard.geom(index).name
        # The hips hold the torso's length; its radius alone grows.
        grown = np.array([1.25, 1.0 if name == "torso" else 1.25, 1.0])
        factor = grown if name in PARTS[part] else 1.0
        np.testing.assert_allclose(scaled.geom(name).size, standard.geom(name).size * factor)
    np.testing.assert_allclose(scaled.body_mass.sum(), TOTAL_MASS)
    share = [model.body(PARTS[part][0]).mass[0] for model in (standard, scaled)]
    assert share[1] > 1.1 * share[0]
    np.testing.assert_array_equal(scaled.jnt_pos, standard.jnt_pos)
    np.testing.assert_array_equal(scaled.body_pos, standard.body_pos)


def test_bodies_move_differently():
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (20, 6))
    paths = []
    for task in range(5):
        env = make(task)
        paths.append(np.array([env.step(action)[0] for action in actions]))
    for i in range(5):
        for j in range(i):
            assert np.abs(paths[i] - paths[j]).max() > 0.5


def test_a_planner_in_another_body_s_simulator_expects_something_else():
    suite, few = suites.get("half_cheetah")(), Budget(horizon=3, num_samples=4, num_rounds=1)
    own = play(suite, task=0, num_steps=8, budget=few)
    np.testing.assert_allclose(own.expected, own.states[1:], atol=1e-5)
    other = play(suite, task=0, num_steps=8, budget=few, model=4)
    assert np.abs(other.expected - other.states[1:]).max() > 0.1


def picture_at(distance):
    env = suites.get("half_cheetah")().tasks[0].make("rgb_array")
    env.reset(seed=0)
    env.data.qpos[0] = distance
    mujoco.mj_forward(env.model, env.data)
    return env.render().astype(int)


def test_camera_follows_the_runner():
    for picture in (picture_at(25.0), picture_at(0.0)):
        # The runner is in the middle, in its own colour.
        red, green, blue = picture.transpose(2, 0, 1)
        body = (red > blue + 60) & (red > green + 20)
        columns = np.flatnonzero(body.any(0))
        assert body.sum() > 1_000
        assert 0.25 * picture.shape[1] < columns.mean() < 0.75 * picture.shape[1]


def test_floor_and_shadow_are_drawn_along_the_whole_run():
    squares = 80 / 60  # metres after which Gymnasium's floor repeats itself
    home, away = picture_at(0.0), picture_at(90 * squares)
    different = np.abs(home - away).max(-1) > 30
    assert different.mean() < 0.01
