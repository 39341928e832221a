"""Elastic weight consolidation: its Fisher, its springs, and what is left at zero strength."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.dynamics.mlp import Layout, apply_mlp
from hypercrl.dynamics.model import Network, prepare
from hypercrl.learners.ewc import EWC
from hypercrl.learners.finetune import FineTune
from hypercrl.learning.ewc import Springs
from sequences import SIXTEEN, TINY, learn_briefly

SPEC = make_spec()


def unit_gaussian(raw, target, _):
    """−log p up to a constant, summed over the outputs."""
    return 0.5 * jnp.sum((raw - target) ** 2)


def learned_gaussian(raw, target, bounds):
    high, low = bounds["max_log_variance"], bounds["min_log_variance"]
    mean, free = raw[:3], raw[3:]
    capped = high - jnp.log1p(jnp.exp(high - free))
    variance = jnp.exp(low + jnp.log1p(jnp.exp(capped - low)))
    return -jax.scipy.stats.norm.logpdf(target, mean, jnp.sqrt(variance)).sum()


@pytest.mark.parametrize(
    ("head", "outputs", "negative_log_likelihood"),
    [("point", 3, unit_gaussian), ("gaussian", 6, learned_gaussian)],
)
def test_fisher_is_the_mean_squared_gradient_of_the_log_likelihood(
    head, outputs, negative_log_likelihood
):
    """One sample at a time, with the likelihood written out here."""
    learner = EWC(network=Network(hidden=(6, 5), head=head), training=SIXTEEN)
    data = linear_data(SPEC, 0, count=90, capacity=90)
    state = learner.init(SPEC, 2, key=key(0))
    own = state.params.of(0)
    inputs, targets = prepare(SPEC, state.normalizers.select(0), *data[:3])
    (head_layer,) = Layout((5, outputs)).unflatten(own.tasks)

    @jax.jit
    @jax.grad
    def gradient(trunk, x, y):
        raw = apply_mlp((*Layout((5, 6, 5)).unflatten(trunk), head_layer), x)
        return negative_log_likelihood(raw, y, own.bounds)

    training = [row for row in range(90) if not 60 <= row < 80]  # no multiple of the batch
    gradients = [gradient(own.shared, inputs[row], targets[row]) for row in training]
    expected = np.mean(np.square(gradients), axis=0)
    assert expected.max() > 0
    ended = learner.end_task(state, data, key=key(0)).protection
    np.testing.assert_allclose(ended["stiffness"], expected, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(ended["pull"], expected * own.shared, rtol=1e-3, atol=1e-9)


def test_penalty_is_the_sum_of_all_springs_times_the_batch_size():
    learner = EWC(network=TINY, training=SIXTEEN, strength=7.0)
    first, second, _ = learn_briefly(learner)
    anchors = [state.params.shared for state in (first, second)]
    before = [jnp.zeros_like(anchors[0]), first.protection["stiffness"]]
    fisher = [s.protection["stiffness"] - b for s, b in zip((first, second), before, strict=True)]
    state = learner.start_task(second, 2, key=key(5))
    trunk = state.params.shared + 0.1

    def springs(trunk):
        old = [jnp.sum(f * (trunk - a) ** 2) for f, a in zip(fisher, anchors, strict=True)]
        return 16 * 7.0 / 2 * sum(old)

    def penalty(trunk):
        return learner.parts.protection.penalty(state.protection, trunk)

    slope = jax.grad(springs)(trunk)
    assert jnp.abs(slope).max() > 0
    np.testing.assert_allclose(jax.grad(penalty)(trunk), slope, rtol=1e-3, atol=1e-4)
    risen = [float(f(trunk) - f(state.params.shared)) for f in (penalty, springs)]
    assert risen[0] == pytest.approx(risen[1], rel=1e-3)


def test_a_task_costs_no_more_bytes_than_in_fine_tuning():
    """Two running sums serve all tasks."""
    ewc, plain = (cls(network=TINY) for cls in (EWC, FineTune))
    states = [learner.init(SPEC, 3, key=key(0)) for learner in (ewc, plain)]
    assert ewc.bytes_per_task(states[0]) == plain.bytes_per_task(states[1])
    few, many = (ewc.init(SPEC, n, key=key(0)).protection for n in (2, 9))
    sizes = [sum(x.nbytes for x in jax.tree.leaves(sums)) for sums in (few, many)]
    assert sizes == [2 * states[0].params.shared.nbytes] * 2


def test_strength_means_the_same_for_any_batch_size():
    state = {"stiffness": jnp.ones(4), "pull": jnp.zeros(4)}
    small, large = (Springs(7.0, batch_size=b).penalty(state, jnp.ones(4)) for b in (16, 64))
    assert float(large / small) == pytest.approx(4.0)


def test_zero_strength_is_fine_tuning_bit_for_bit():
    ewc = learn_briefly(EWC(network=TINY, training=SIXTEEN, strength=0.0))[-1]
    plain = learn_briefly(FineTune(network=TINY, training=SIXTEEN))[-1]
    assert ewc.protection["stiffness"].max() > 0
    for one, other in zip(jax.tree.leaves(ewc.params), jax.tree.leaves(plain.params), strict=True):
        np.testing.assert_array_equal(one, other)
