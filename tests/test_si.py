"""Synaptic intelligence: its path integral where the answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.dynamics.model import prepare
from hypercrl.learners.finetune import FineTune
from hypercrl.learners.si import SI
from hypercrl.learning.si import PathIntegral
from sequences import SIXTEEN, TINY, learn_briefly

SPEC = make_spec()
SPRINGY = SI(network=TINY, training=SIXTEEN, strength=100.0)


def descend(curvature, minimum, start, rate, num_steps):
    """Gradient descent on Σ a (θ − b)² / 2 under the protection's watch."""
    guard = PathIntegral(strength=0.1, damping=1e-3)
    place = jnp.asarray(start, jnp.float32)
    state = guard.start(guard.init(place), place)
    for _ in range(num_steps):
        gradient = curvature * (place - minimum)
        after = place - rate * gradient
        state = guard.watch(state, gradient, place, after)
        place = after
    return place, state


def test_path_integral_on_a_quadratic():
    """The steps shrink by q = 1 − rate·a, so the sum is a geometric series."""
    curvature, minimum = np.array([1.0, 4.0, 0.5]), np.array([1.0, -2.0, 0.0])
    start, rate, num_steps = np.array([3.0, 1.0, 0.0]), 0.1, 25
    _, state = descend(curvature, minimum, start, rate, num_steps)
    q = 1 - rate * curvature
    series = (1 - q ** (2 * num_steps)) / (1 - q**2)
    expected = rate * curvature**2 * (start - minimum) ** 2 * series
    np.testing.assert_allclose(state["path"], expected, rtol=1e-5)
    assert state["path"][2] == 0.0  # it started at its minimum and never moved


def test_path_integral_of_small_steps_is_the_loss_that_was_shed():
    curvature, minimum, start = np.array([1.0, 4.0]), np.array([1.0, -2.0]), np.array([3.0, 1.0])
    end, state = descend(curvature, minimum, start, rate=1e-3, num_steps=500)
    shed = curvature / 2 * ((start - minimum) ** 2 - (np.asarray(end) - minimum) ** 2)
    np.testing.assert_allclose(state["path"], shed, rtol=5e-3)


def test_importance_divides_by_the_damped_distance_and_adds_up_over_tasks():
    learner = SPRINGY
    state = learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(0))
    size = state.params.shared.size
    path = jnp.linspace(-1.0, 1.0, size)
    trunk = state.params.shared + 2.0
    state = state.replace(
        params=state.params._replace(shared=trunk),
        protection=state.protection | {"path": path, "importance": jnp.ones(size)},
    )
    ended = learner.end_task(state, linear_data(SPEC, 0), key=key(0))
    expected = 1.0 + np.maximum(path, 0) / (2.0**2 + 1e-3)
    np.testing.assert_allclose(ended.protection["importance"], expected, rtol=1e-5)
    begun = learner.start_task(ended, 1, key=key(0))
    np.testing.assert_array_equal(begun.protection["path"], 0.0)
    np.testing.assert_array_equal(begun.protection["anchor"], trunk)


def test_path_follows_the_gradient_of_the_dynamics_loss_alone():
    """One update on a single transition, with a strong spring pulling elsewhere."""
    learner = SPRINGY
    data = linear_data(SPEC, 0, count=1, capacity=80)
    state = learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(0))
    # A lone transition is normalised to zero; biases bring the network to life.
    trunk = jnp.abs(jax.random.normal(key(3), state.protection["anchor"].shape))
    springs = {"anchor": trunk - 0.3, "importance": jnp.ones_like(trunk)}
    state = state.replace(
        params=state.params._replace(shared=trunk), protection=state.protection | springs
    )
    after, _ = learner.update(state, data, None, num_updates=1, key=key(1))
    inputs, targets = prepare(SPEC, after.normalizers.select(0), *data[:3])
    batch = (jnp.tile(inputs[:1], (16, 1)), jnp.tile(targets[:1], (16, 1)))
    loss = learner.parts.architecture.loss
    gradient = jax.grad(loss, argnums=1)(SPEC, state.params.of(0), None, *batch).shared
    step = after.params.shared - state.params.shared
    assert jnp.abs(gradient * step).max() > 0
    np.testing.assert_allclose(after.protection["path"], -gradient * step, rtol=1e-3, atol=1e-7)


def test_penalty_is_quadratic_around_the_start_of_the_task():
    learner = SPRINGY
    state = learner.start_task(learn_briefly(learner)[0], 1, key=key(0))
    penalty, shared = learner.parts.protection.penalty, state.params.shared
    assert penalty(state.protection, shared) == 0.0
    expected = 100.0 * 0.2**2 * float(state.protection["importance"].sum())
    assert expected > 0
    assert float(penalty(state.protection, shared + 0.2)) == pytest.approx(expected, rel=1e-3)


def test_zero_strength_is_fine_tuning_bit_for_bit():
    si = learn_briefly(SI(network=TINY, training=SIXTEEN, strength=0.0))[-1]
    plain = learn_briefly(FineTune(network=TINY, training=SIXTEEN))[-1]
    assert si.protection["importance"].max() > 0
    for one, other in zip(jax.tree.leaves(si.params), jax.tree.leaves(plain.params), strict=True):
        np.testing.assert_array_equal(one, other)
