"""Synaptic intelligence: its path integral where the answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

from hypercrl.dynamics.model import prepare
from hypercrl.learners.baseline import Params
from hypercrl.learners.finetune import FineTune
from hypercrl.learners.si import SI
from problems import linear_data, make_spec
from sequences import TINY, learn_briefly

SPEC = make_spec()
SPRINGY = SI(network=TINY, strength=100.0, batch_size=16)


def descend(learner, curvature, minimum, start, rate, num_steps):
    """Gradient descent on Σ a (θ − b)² / 2 under the learner's watch."""
    trunk = jnp.asarray(start, jnp.float32)
    params = Params({"trunk": trunk}, ())
    extra = learner.start_extra(learner.init_extra(params, 2), params)
    for _ in range(num_steps):
        gradient = curvature * (trunk - minimum)
        after = trunk - rate * gradient
        extra = learner.watch(
            extra,
            Params({"trunk": gradient}, ()),
            Params({"trunk": trunk}, ()),
            Params({"trunk": after}, ()),
        )
        trunk = after
    return trunk, extra


def test_path_integral_on_a_quadratic():
    """The steps shrink by q = 1 − rate·a, so the sum is a geometric series."""
    curvature, minimum = np.array([1.0, 4.0, 0.5]), np.array([1.0, -2.0, 0.0])
    start, rate, num_steps = np.array([3.0, 1.0, 0.0]), 0.1, 25
    _, extra = descend(SI(), curvature, minimum, start, rate, num_steps)
    q = 1 - rate * curvature
    series = (1 - q ** (2 * num_steps)) / (1 - q**2)
    expected = rate * curvature**2 * (start - minimum) ** 2 * series
    np.testing.assert_allclose(extra["path"], expected, rtol=1e-5)
    assert extra["path"][2] == 0.0  # it started at its minimum and never moved


def test_path_integral_of_small_steps_is_the_loss_that_was_shed():
    curvature, minimum, start = np.array([1.0, 4.0]), np.array([1.0, -2.0]), np.array([3.0, 1.0])
    end, extra = descend(SI(), curvature, minimum, start, rate=1e-3, num_steps=500)
    shed = curvature / 2 * ((start - minimum) ** 2 - (np.asarray(end) - minimum) ** 2)
    np.testing.assert_allclose(extra["path"], shed, rtol=5e-3)


def test_importance_divides_by_the_damped_distance_and_adds_up_over_tasks():
    learner = SPRINGY
    state = learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(0))
    size = state.params.shared["trunk"].size
    path = jnp.linspace(-1.0, 1.0, size)
    trunk = state.params.shared["trunk"] + 2.0
    state = state.replace(
        params=state.params._replace(shared={"trunk": trunk}),
        extra=state.extra | {"path": path, "importance": jnp.ones(size)},
    )
    ended = learner.end_task(state, linear_data(SPEC, 0), key=key(0))
    expected = 1.0 + np.maximum(path, 0) / (2.0**2 + 1e-3)
    np.testing.assert_allclose(ended.extra["importance"], expected, rtol=1e-5)
    begun = learner.start_task(ended, 1, key=key(0))
    np.testing.assert_array_equal(begun.extra["path"], 0.0)
    np.testing.assert_array_equal(begun.extra["anchor"], trunk)


def test_path_follows_the_gradient_of_the_dynamics_loss_alone():
    """One update on a single transition, with a strong spring pulling elsewhere."""
    learner = SPRINGY
    data = linear_data(SPEC, 0, count=1, capacity=80)
    state = learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(0))
    # A lone transition is normalised to zero; biases bring the network to life.
    trunk = jnp.abs(jax.random.normal(key(3), state.extra["anchor"].shape))
    springs = {"anchor": trunk - 0.3, "importance": jnp.ones_like(trunk)}
    state = state.replace(
        params=state.params._replace(shared={"trunk": trunk}), extra=state.extra | springs
    )
    after, _ = learner.update(state, data, None, num_updates=1, key=key(1))
    inputs, targets = prepare(SPEC, after.normalizers.select(0), *data[:3])
    batch = (jnp.tile(inputs[:1], (16, 1)), jnp.tile(targets[:1], (16, 1)))
    gradient = jax.grad(learner.loss)(state.params.of(0), None, *batch, SPEC).shared["trunk"]
    step = after.params.shared["trunk"] - state.params.shared["trunk"]
    assert jnp.abs(gradient * step).max() > 0
    np.testing.assert_allclose(after.extra["path"], -gradient * step, rtol=1e-3, atol=1e-7)


def test_penalty_is_quadratic_around_the_start_of_the_task():
    learner = SPRINGY
    state = learner.start_task(learn_briefly(learner)[0], 1, key=key(0))
    own = state.params.of(1)
    assert learner.penalty(own, state.extra) == 0.0
    moved = own._replace(shared={"trunk": own.shared["trunk"] + 0.2})
    expected = 100.0 * 0.2**2 * float(state.extra["importance"].sum())
    assert expected > 0
    assert float(learner.penalty(moved, state.extra)) == pytest.approx(expected, rel=1e-3)


def test_zero_strength_is_fine_tuning_bit_for_bit():
    si = learn_briefly(SI(network=TINY, strength=0.0, batch_size=16))[-1]
    plain = learn_briefly(FineTune(network=TINY, batch_size=16))[-1]
    assert si.extra["importance"].max() > 0
    for one, other in zip(jax.tree.leaves(si.params), jax.tree.leaves(plain.params), strict=True):
        np.testing.assert_array_equal(one, other)
