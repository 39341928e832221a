"""Block sliding: a push decides, friction differs, and the arm moves block 1 only."""

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from hypercrl.errors import UserError
from hypercrl.learning.prediction_regulariser import PredictionRegulariser
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.registry import suites
from hypercrl.suites.slide import (
    FRICTIONS,
    GOAL,
    GOAL_CENTRE,
    MAX_TASKS,
    WORKSPACE,
    SlideEnv,
    draw_frictions,
    reward,
    succeeded,
)

GRAVITY = 9.81
STRENGTHS = np.arange(0.2, 1.01, 0.05)


def block1(state):
    return np.asarray(state)[2:10].reshape(4, 2).mean(axis=0)


def block2(state):
    return np.asarray(state)[10:].reshape(4, 2).mean(axis=0)


def push(env, strength):
    """One episode of pushing along the line of the blocks: its states and rewards."""
    states, rewards = [env.reset(seed=0)[0]], []
    for _ in range(env.suite_spec.episode_length):
        state, paid, *_ = env.step(np.array([strength, 0.0]))
        states.append(state)
        rewards.append(paid)
    return np.array(states), np.array(rewards)


@pytest.fixture(scope="module")
def pushes():
    """The right strength for each friction, and where block 2 ends with it."""
    found = {}
    for friction in FRICTIONS:
        env = SlideEnv(friction)
        episodes = [(strength, *push(env, strength)) for strength in STRENGTHS]
        found[friction] = min(
            episodes, key=lambda episode: np.linalg.norm(block2(episode[1][-1]) - GOAL_CENTRE)
        )
    return found


def test_start_and_goal_are_the_papers():
    state, _ = SlideEnv(FRICTIONS[0]).reset(seed=0)
    np.testing.assert_allclose(block1(state), (-0.04, 0.0), atol=1e-6)
    np.testing.assert_allclose(block2(state), (0.04, 0.0), atol=1e-6)
    np.testing.assert_allclose(GOAL, [(0.25, -0.03), (0.25, 0.03), (0.31, -0.03), (0.31, 0.03)])


def test_reward_looks_at_block_two_only():
    state = jnp.asarray(SlideEnv(FRICTIONS[0]).reset(seed=0)[0])
    there = jnp.array([*state[:10], *np.ravel(GOAL)])
    none, full = jnp.zeros(2), jnp.array([0.0, 1.0])
    assert reward(state, none, there) == pytest.approx(4.0)
    assert reward(state, full, there) == pytest.approx(3.9)
    assert reward(there, none, state) < 0.2


@pytest.mark.parametrize("friction", FRICTIONS)
def test_some_push_brings_block_two_to_the_goal(pushes, friction):
    _, states, rewards = pushes[friction]
    assert np.isfinite(states).all() and np.isfinite(rewards).all()
    assert np.linalg.norm(block2(states[-1]) - GOAL_CENTRE) < 0.02
    assert succeeded(states) and not succeeded(states[:1])
    assert rewards[-1] > 3.0


def test_carrying_alone_does_not_reach_the_goal():
    """A gentle push ends where the arm must stop: block 2 has to slide the rest."""
    env = SlideEnv(max(FRICTIONS))
    states, _ = push(env, 0.3)
    assert env.arm.tool_position[0] > WORKSPACE.x[1] - 0.01  # it has come to its end
    assert block2(states[-1])[0] < GOAL_CENTRE[0] - 0.05


def test_more_friction_needs_a_harder_push(pushes):
    strengths = [pushes[friction][0] for friction in sorted(FRICTIONS)]
    assert strengths == sorted(strengths)
    assert strengths[-1] > 1.4 * strengths[0]


def test_the_right_push_for_one_end_of_the_range_misses_at_the_other(pushes):
    for friction, other in (min(FRICTIONS), max(FRICTIONS)), (max(FRICTIONS), min(FRICTIONS)):
        _, rewards = push(SlideEnv(other), pushes[friction][0])
        assert rewards.sum() < 0.7 * pushes[other][2].sum()


def test_the_same_push_slides_further_on_slippery_ground():
    ends = [block2(push(SlideEnv(f), 1.0)[0][-1])[0] for f in (min(FRICTIONS), max(FRICTIONS))]
    assert ends[0] > ends[1] + 0.05  # more than what counts as a success


@pytest.mark.parametrize("friction", FRICTIONS)
def test_friction_is_viscous_with_a_little_dry_friction(friction):
    """Thrown at 0.2 m/s: dv/dt = -friction v - 0.006 g."""
    env = SlideEnv(friction)
    env.reset(seed=0)
    speed = env.data.qvel[env.model.joint("block2").dofadr[0] :][:1]
    speed[0] = 0.2
    mujoco.mj_step(env.model, env.data, 250)  # half a second
    limit = 0.006 * GRAVITY / friction
    expected = (0.2 + limit) * np.exp(-0.5 * friction) - limit
    assert speed[0] == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize("sideways", [-1.0, -0.3, 0.0, 0.3, 1.0])
def test_arm_cannot_touch_block_two(sideways):
    env = SlideEnv(FRICTIONS[0])
    env.reset(seed=0)
    env.data.qpos[env.model.joint("block1").qposadr[0] :][:2] = (-0.4, 0.3)  # out of the way
    mujoco.mj_forward(env.model, env.data)
    for step in range(30):
        state, *_ = env.step(np.array([1.0, sideways * (-1.0 if step % 6 < 3 else 1.0)]))
    np.testing.assert_allclose(block2(state), (0.04, 0.0), atol=1e-4)
    assert env.arm.tool_position[0] > -0.04  # it did try


def test_state_is_restored_in_the_middle_of_a_push():
    env, other = SlideEnv(FRICTIONS[0]), SlideEnv(FRICTIONS[0])
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.array([0.9, 0.1]))
    other.reset(seed=1)
    other.set_state(env.get_state())
    for _ in range(15):
        action = np.array([0.5, -0.2])
        np.testing.assert_array_equal(env.step(action)[0], other.step(action)[0])


def test_longer_sequences_append_to_the_first_five():
    assert draw_frictions(5) == FRICTIONS
    many = draw_frictions(MAX_TASKS)
    assert draw_frictions(20) == many[:20]
    assert len(set(many)) == MAX_TASKS
    assert all(min(FRICTIONS) <= friction <= max(FRICTIONS) for friction in many)


@pytest.mark.parametrize("num_tasks", [0, MAX_TASKS + 1])
def test_impossible_number_of_tasks_is_told(num_tasks):
    with pytest.raises(UserError, match="1 to 100 tasks"):
        suites.get("slide")(num_tasks)


def test_settings_are_the_papers_and_the_laptops():
    presets = suites.get("slide")().presets
    assert list(presets) == ["laptop", "paper"]
    paper, laptop = presets["paper"], presets["laptop"]
    for preset, steps in ((paper, 3_000), (laptop, 4_050)):
        counts = preset.schedule
        assert (counts.steps_per_task, counts.update_every, counts.updates) == (steps, 150, 500)
    assert paper.learner("hypercrl").regulariser == WeightRegulariser(0.5)
    assert laptop.learner("hypercrl").regulariser == PredictionRegulariser()
    assert paper.hypernet.activation == "relu"
