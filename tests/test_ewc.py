"""Elastic weight consolidation: its Fisher, its springs, and what is left at zero strength."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

from hypercrl.dynamics.model import Network, prepare
from hypercrl.learners.ewc import EWC, fisher_diagonal
from hypercrl.learners.finetune import FineTune
from problems import linear_data, make_spec
from sequences import TINY, learn_briefly

SPEC = make_spec()


@pytest.mark.parametrize("head", ["point", "gaussian"])
def test_fisher_equals_the_mean_of_squared_gradients_one_sample_at_a_time(head):
    learner = EWC(network=Network(hidden=(6, 5), head=head), batch_size=16)
    data = linear_data(SPEC, 0, count=80, capacity=80)
    state = learner.init(SPEC, 2, key=key(0))
    own = state.params.of(0)
    inputs, targets = prepare(SPEC, state.normalizers.select(0), *data[:3])

    @jax.jit
    @jax.grad
    def gradient(trunk, x, y):
        changed = own._replace(shared={"trunk": trunk})
        return learner.errors(changed, None, x[None], y[None], SPEC)[0]

    training = [row for row in range(80) if row % 4 != 3]  # no multiple of the batch
    gradients = [gradient(own.shared["trunk"], inputs[row], targets[row]) for row in training]
    expected = np.mean(np.square(gradients), axis=0)
    assert expected.max() > 0
    np.testing.assert_allclose(
        fisher_diagonal(learner, state, data), expected, rtol=1e-4, atol=1e-9
    )


def test_penalty_is_the_sum_of_all_springs_times_the_batch_size():
    learner = EWC(network=TINY, strength=7.0, batch_size=16)
    state = learn_briefly(learner)[1]
    state = learner.start_task(state, 2, key=key(5))
    own = state.params.of(2)
    trunk = own.shared["trunk"] + 0.1

    def springs(trunk):
        fisher, anchor = state.extra["fisher"], state.extra["anchor"]
        old = [jnp.sum(fisher[i] * (trunk - anchor[i]) ** 2) for i in (0, 1)]
        return 16 * 7.0 / 2 * sum(old)

    def penalty(trunk):
        return learner.penalty(own._replace(shared={"trunk": trunk}), state.extra)

    slope = jax.grad(springs)(trunk)
    assert jnp.abs(slope).max() > 0
    np.testing.assert_allclose(jax.grad(penalty)(trunk), slope, rtol=1e-4, atol=1e-5)
    risen = [float(f(trunk) - f(own.shared["trunk"])) for f in (penalty, springs)]
    assert risen[0] == pytest.approx(risen[1], rel=1e-3)


def test_strength_means_the_same_for_any_batch_size():
    small, large = (EWC(network=TINY, strength=7.0, batch_size=b) for b in (16, 64))
    state = small.start_task(learn_briefly(small)[0], 1, key=key(5))
    own = state.params.of(1)
    moved = own._replace(shared={"trunk": own.shared["trunk"] + 0.1})
    ratio = large.penalty(moved, state.extra) / small.penalty(moved, state.extra)
    assert float(ratio) == pytest.approx(4.0)


def test_zero_strength_is_fine_tuning_bit_for_bit():
    ewc = learn_briefly(EWC(network=TINY, strength=0.0, batch_size=16))[-1]
    plain = learn_briefly(FineTune(network=TINY, batch_size=16))[-1]
    assert jnp.abs(ewc.extra["fisher"]).max() > 0
    for one, other in zip(jax.tree.leaves(ewc.params), jax.tree.leaves(plain.params), strict=True):
        np.testing.assert_array_equal(one, other)
