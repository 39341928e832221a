"""The cart-pole against pencil and paper: geometry, energy, reward, and that it can be swung up."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from hypercrl.registry import suites
from hypercrl.suites.cartpole import (
    LENGTHS,
    POLE_MASS_PER_METRE,
    TipReward,
    held_upright,
)

GRAVITY = 9.81
CART_MASS = 0.5


def make(length):
    tasks = suites.get("cartpole")(25).tasks
    (task,) = (task for task in tasks if task.name == f"{length:g} m")
    env = task.make(None)
    env.reset(seed=0)
    return env


def place(env, x, angle):
    env.data.qpos[:] = x, angle
    env.data.qvel[:] = 0
    mujoco.mj_forward(env.model, env.data)


def test_task_order_is_the_documented_one():
    names = [task.name for task in suites.get("cartpole")(10).tasks]
    assert names[:5] == ["0.6 m", "0.8 m", "0.4 m", "1 m", "1.2 m"]
    assert names == [f"{length:g} m" for length in LENGTHS]


def test_reward_is_one_upright_and_falls_with_the_tip():
    reward, none = TipReward(jnp.asarray(0.8)), jnp.zeros(1)
    state = jnp.array([0.0, jnp.pi, 0.0, 0.0])
    hanging = reward(state, none, state)
    upright = reward(state, none, state.at[1].set(0.0))
    beside = reward(state, none, jnp.array([0.4, 0.0, 0.0, 0.0]))
    full_turn = reward(state, none, jnp.array([0.0, 2 * jnp.pi, 0.0, 0.0]))
    np.testing.assert_allclose(hanging, np.exp(-4), rtol=1e-5)
    np.testing.assert_allclose([upright, full_turn], 1.0, rtol=1e-5)
    np.testing.assert_allclose(beside, np.exp(-0.25), rtol=1e-5)
    np.testing.assert_allclose(reward(state, jnp.ones(1), state.at[1].set(0.0)), 0.99, rtol=1e-5)


@pytest.mark.parametrize("length", [0.4, 1.2])
def test_reward_sees_the_tip_where_the_simulation_has_it(length):
    env = make(length)
    place(env, 0.3, 0.7)
    tip = env.data.site("tip").xpos
    squared = tip[0] ** 2 + (tip[2] - length) ** 2
    state = jnp.asarray(env.observe(), jnp.float32)
    known = env.reward(state, jnp.zeros(1), state)
    np.testing.assert_allclose(known, np.exp(-squared / length**2), rtol=1e-5)


def test_one_compiled_reward_serves_every_length():
    traces = []

    @jax.jit
    def evaluate(reward, state):
        traces.append(None)
        return reward(state, jnp.zeros(1), state)

    tasks = suites.get("cartpole")(20).tasks
    values = {float(evaluate(task.reward, jnp.array([0.3, 0.5, 0.0, 0.0]))) for task in tasks}
    assert len(values) == 20
    assert len(traces) == 1


@pytest.mark.parametrize("length", [0.4, 1.2])
def test_pole_is_a_uniform_rod_of_the_tasks_length(length):
    env = make(length)
    model = env.model
    pole_mass = model.body("pole").mass[0]
    np.testing.assert_allclose(pole_mass, POLE_MASS_PER_METRE * length)
    np.testing.assert_allclose(model.body("cart").mass[0], CART_MASS)
    # Held level and released, a rod starts to fall with 3 g / 2 l and leaves the cart in place.
    # Rounded ends make the simulated one a little longer.
    place(env, 0.0, np.pi / 2)
    np.testing.assert_allclose(env.data.qacc[1], 1.5 * GRAVITY / length, rtol=0.05)
    np.testing.assert_allclose(env.data.qacc[0], 0.0, atol=1e-6)


def test_energy_is_nearly_conserved_without_force():
    env = make(0.8)
    place(env, 0.0, 0.5)
    mujoco.mj_energyPos(env.model, env.data)
    start = env.data.energy[0]
    for _ in range(20):
        env.step(np.zeros(1))
    mujoco.mj_energyPos(env.model, env.data)
    mujoco.mj_energyVel(env.model, env.data)
    lost = start - env.data.energy.sum()
    swing = POLE_MASS_PER_METRE * 0.8 * GRAVITY * 0.8  # from upright to hanging
    assert 0 < lost < 0.1 * swing


def test_full_force_alone_does_not_lift_the_pole():
    """Swinging up takes a plan: a constant push leaves the pole below the level of the cart."""
    for task in suites.get("cartpole")().tasks:
        env = task.make(None)
        env.reset(seed=0)
        heights = [np.cos(env.step(np.ones(1))[0][1]) for _ in range(15)]
        assert max(heights) < 0.5


def test_lengths_move_differently():
    env_states = []
    for task in suites.get("cartpole")().tasks:
        env = task.make(None)
        env.reset(seed=0)
        env_states.append([env.step(np.sin([0.4 * t]))[0] for t in range(20)])
    states = np.array(env_states)
    for i in range(len(states)):
        for j in range(i):
            assert np.abs(states[i] - states[j]).max() > 0.5


def test_starts_hang_near_the_middle_and_vary():
    env = make(0.6)
    starts = np.array([env.reset()[0] for _ in range(200)])
    np.testing.assert_allclose(starts.mean(0), [0, np.pi, 0, 0], atol=0.02)
    np.testing.assert_allclose(starts.std(0), 0.05, rtol=0.3)


def test_success_means_standing_for_the_last_second():
    states = np.zeros((101, 4))
    states[:50, 1] = np.pi
    assert held_upright(states)
    states[-21, 1] = 0.6  # a second is 20 steps
    assert held_upright(states)
    states[-20, 1] = 0.6
    assert not held_upright(states)
    states[:, 1] = 4 * np.pi
    assert held_upright(states)


@pytest.mark.parametrize("length", [0.4, 1.2])
def test_planning_with_the_simulator_swings_the_pole_up(length):
    """Reward, force and horizon lead to the goal when the model is perfect."""
    env, model = make(length), make(length)
    rng = np.random.default_rng(0)
    horizon, samples = 25, 40
    mean, best = np.zeros(horizon), 0.0
    for _ in range(70):
        saved = env.get_state()["physics"]
        spread = np.ones(horizon)
        for _ in range(2):
            # Sums of white noise are smooth enough to swing with.
            noise = rng.standard_normal((samples, horizon)).cumsum(1) / np.sqrt(5)
            plans = np.clip(mean + spread * (noise - noise.mean(1, keepdims=True)), -1, 1)
            plans[0] = mean
            elites = plans[np.argsort([-imagine(model, saved, plan, length) for plan in plans])[:6]]
            mean, spread = elites.mean(0), elites.std(0) + 0.1
        state, reward, *_ = env.step(elites[0, :1])
        best = max(best, reward)
        mean = np.append(mean[1:], 0.0)
        if best > 0.9:
            break
    assert best > 0.9
    assert abs(state[0]) < 2.0


def imagine(env, physics, plan, length) -> float:
    """The return of an action sequence in the simulator."""
    mujoco.mj_setState(env.model, env.data, physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    total = 0.0
    for action in plan:
        env.advance(np.atleast_1d(action))
        x, angle = env.data.qpos
        squared = (x / length + np.sin(angle)) ** 2 + (1 - np.cos(angle)) ** 2
        total += np.exp(-squared) - 0.01 * action**2
    return total
