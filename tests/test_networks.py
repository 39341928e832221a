"""The target network, its heads and the hypernetworks that generate it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.dynamics import full_hypernet
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS, GaussianHead, PointHead
from hypercrl.dynamics.mlp import Layout, apply_mlp
from hypercrl.dynamics.model import Network
from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.dynamics.outer_sum import OuterSum
from hypercrl.dynamics.separate import Separate
from hypercrl.errors import UserError
from hypercrl.learning.adam import adam
from hypercrl.learning.gradients import add_gradients, clip_by_norm, densify
from hypercrl.registry import learners

LAYOUT = Layout((3, 5, 4, 2))
FULL = FullHypernet(hidden=(7, 6), embedding_dim=4)
CHUNKED = ChunkedHypernet(hidden=(7, 6), embedding_dim=4, chunk_size=16, chunk_embedding_dim=3)
BOTH = pytest.mark.parametrize("config", [FULL, CHUNKED], ids=["full", "chunked"])


def test_weight_order_against_a_hand_built_network():
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=s) for s in [(3, 5), (5, 4), (4, 2)]]
    biases = [rng.normal(size=n) for n in (5, 4, 2)]
    x = rng.normal(size=3)
    flat = np.concatenate(
        [np.concatenate([m.ravel(), b]) for m, b in zip(matrices, biases, strict=True)]
    )
    hidden = np.maximum(x @ matrices[0] + biases[0], 0)
    hidden = np.maximum(hidden @ matrices[1] + biases[1], 0)
    expected = hidden @ matrices[2] + biases[2]
    assert flat.size == LAYOUT.num_weights == 3 * 5 + 5 + 5 * 4 + 4 + 4 * 2 + 2
    actual = apply_mlp(LAYOUT.unflatten(jnp.array(flat)), jnp.array(x))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@BOTH
def test_hypernetwork_generates_one_row_of_weights_a_task(config):
    params = config.init(LAYOUT, key=jax.random.key(0))
    embeddings = jax.random.normal(jax.random.key(1), (3, 4))
    weights = config.generate(LAYOUT, params, embeddings)
    assert weights.shape == (3, LAYOUT.num_weights)
    alone = config.generate(LAYOUT, params, embeddings[1:2])
    np.testing.assert_allclose(weights[1], alone[0], rtol=1e-5, atol=1e-6)


def test_full_hypernetwork_against_a_hand_built_one():
    params = FULL.init(LAYOUT, key=jax.random.key(0))
    x = np.linspace(-1, 1, 4).astype(np.float32)
    hidden = x
    for layer in params["hidden"]:
        hidden = hidden @ np.asarray(layer["matrix"]) + np.asarray(layer["bias"])
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    matrix = np.concatenate(params["output"]["matrix"], axis=1)
    expected = hidden @ matrix + params["output"]["bias"]
    np.testing.assert_allclose(
        FULL.generate(LAYOUT, params, jnp.asarray(x[None]))[0], expected, rtol=1e-4
    )


def test_chunks_are_laid_end_to_end():
    params = CHUNKED.init(LAYOUT, key=jax.random.key(0))
    embedding = jax.random.normal(jax.random.key(1), (1, 4))
    weights = CHUNKED.generate(LAYOUT, params, embedding)[0]
    # Moving one chunk's embedding moves that chunk's weights and no others.
    moved = {**params, "chunks": params["chunks"].at[1].add(1.0)}
    changed = np.asarray(CHUNKED.generate(LAYOUT, moved, embedding)[0] != weights)
    assert changed[16:32].all()
    assert not changed[:16].any()
    assert not changed[32:].any()


def test_paper_sizes():
    """Full: 51 times the target; chunked: below it (pusher)."""
    pusher = Layout((12, 200, 200, 10))
    count = lambda config: sum(  # noqa: E731
        x.size for x in jax.tree.leaves(config.init(pusher, key=jax.random.key(0)))
    )
    assert round(count(FullHypernet()) / pusher.num_weights) == 51
    chunked = ChunkedHypernet(hidden=(20, 20), chunk_size=2000, chunk_embedding_dim=20)
    assert count(chunked) == 43_500
    assert count(chunked) < pusher.num_weights


@BOTH
def test_hyperfan_starts_with_the_wanted_variance(config):
    layout = Layout((50, 100, 100, 20))
    sizes = {"chunk_size": 1600} if config is CHUNKED else {}
    config = dataclasses.replace(config, hidden=(50, 50), initialisation="hyperfan", **sizes)
    params = config.init(layout, key=jax.random.key(0))
    embeddings = jax.random.normal(jax.random.key(1), (64, 4))
    variance = float(config.generate(layout, params, embeddings).var())
    assert variance == pytest.approx(layout.he_variances().mean(), rel=0.25)


def test_gaussian_log_likelihood_against_scipy():
    head, rng = GaussianHead(), np.random.default_rng(0)
    params = {"max_log_variance": jnp.full(3, 1.0), "min_log_variance": jnp.full(3, -4.0)}
    raw, target = jnp.array(rng.normal(size=6)), jnp.array(rng.normal(size=3))
    std = np.exp(0.5 * np.asarray(head.log_variance(params, raw)))
    expected = -scipy.stats.norm(np.asarray(head.mean(raw)), std).logpdf(target).sum()
    found = head.negative_log_likelihood(params, raw, target)
    assert float(found) == pytest.approx(expected, rel=1e-5)
    assert float(head.loss(params, raw, target)) == pytest.approx(expected / 3, rel=1e-5)


WIDE = {"max_log_variance": jnp.full(2, 20.0), "min_log_variance": jnp.full(2, -20.0)}


@pytest.mark.parametrize("log_variance", [-8.0, -1.0])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_beta_says_how_much_more_errors_count_where_they_are_rare(beta, log_variance):
    """The mean's gradient is divided by σ^(2 − 2β): by the variance, by σ, or by nothing."""
    head, variance = GaussianHead(beta=beta), np.exp(log_variance)
    raw, target = jnp.array([0.3, -0.2, log_variance, log_variance]), jnp.array([1.0, 0.5])
    slope = jax.grad(lambda raw: head.loss(WIDE, raw, target))(raw)
    expected = (raw[:2] - target) / 2 * variance ** (beta - 1)
    np.testing.assert_allclose(slope[:2], expected, rtol=1e-3)
    # And the variance goes to where the squared errors are.
    errors = (raw[:2] - target) ** 2
    expected = (1 - errors / variance) / 4 * variance**beta
    np.testing.assert_allclose(slope[2:], expected, rtol=1e-3)


def test_the_beta_that_is_offered_is_one_half():
    assert HEADS["gaussian"].beta == 0 and HEADS["gaussian_beta"].beta == 0.5


def test_a_gaussian_diverges_as_kullback_and_leibler_say():
    """From N(m, v) to N(m', v'): ½ (v/v' + (m − m')²/v' − 1 + log v'/v), for small moves."""
    rng = np.random.default_rng(0)
    before = jnp.asarray([0.3, -0.2, -4.0, 1.0])
    now = before + 1e-2 * jnp.asarray(rng.normal(size=4))
    (m, logv), (n, logw) = np.split(np.asarray(before), 2), np.split(np.asarray(now), 2)
    v, w = np.exp(logv), np.exp(logw)
    exact = 0.5 * (v / w + (m - n) ** 2 / w - 1 + logw - logv)
    found = HEADS["gaussian"].divergence(WIDE, before, now)
    assert float(found) == pytest.approx(exact.mean(), rel=0.02)
    weighted = HEADS["gaussian_beta"].divergence(WIDE, before, now)
    assert float(weighted) == pytest.approx((np.sqrt(v) * exact).mean(), rel=0.02)


def test_a_point_diverges_by_its_squared_error():
    before, now = jnp.array([1.0, 2.0]), jnp.array([0.0, 4.0])
    assert float(HEADS["point"].divergence({}, before, now)) == pytest.approx((1 + 4) / 2)


def test_log_variance_stays_within_its_bounds():
    head = GaussianHead()
    params = {"max_log_variance": jnp.full(1, 1.0), "min_log_variance": jnp.full(1, -4.0)}
    for value in (-100.0, -1.0, 100.0):
        # The soft clamp may pass the upper bound by log(1 + exp(min - max)).
        assert -4.0 <= float(head.log_variance(params, jnp.array([0.0, value]))[0]) <= 1.01


@pytest.mark.parametrize("method", ["hypercrl", "finetune", "pnn"])
def test_the_activation_is_the_same_in_training_and_in_the_model(method):
    """A smooth network reaches a smooth function; planning with another one would not."""
    learner = dataclasses.replace(
        learners.get(method)(), network=Network((16,), "swish", scale_targets=True)
    )
    spec, key = make_spec(), jax.random.key(0)
    data = linear_data(spec, 1)
    state = learner.start_task(learner.init(spec, 1, key=key), 0, key=key)
    state, _ = learner.update(state, data, None, num_updates=1000, key=key)
    scale = jnp.std(data.next_states - data.states, axis=0)
    errors = jax.vmap(learner.predict(state, 0))(data.states, data.actions) - data.next_states
    assert float(jnp.mean((errors / scale[None]) ** 2)) < 0.01


def test_point_loss_is_the_mean_squared_error():
    raw, target = jnp.array([1.0, 2.0]), jnp.array([0.0, 4.0])
    assert float(PointHead().loss({}, raw, target)) == pytest.approx((1 + 4) / 2)


@pytest.mark.parametrize("architecture", [MultiHead, Separate])
def test_weights_cost_by_their_size_whoever_trains_them(architecture):
    """λ Σ θ² for every sample, of the task's own network alone and of no bound of the head."""
    spec, network = make_spec(), Network(hidden=(5,), head="gaussian", decay=0.03)
    free = dataclasses.replace(network, decay=0.0)
    num_inputs = spec.encoding.num_features + spec.action_dim
    inputs, targets = jnp.ones((7, num_inputs)), jnp.zeros((7, spec.encoding.num_outputs))
    params = architecture(network).init(spec, 3, key=jax.random.key(0)).of(1)
    costs = [
        float(architecture(one).loss(spec, params, None, inputs, targets))
        for one in (network, free)
    ]
    leaves = jax.tree.leaves((params.shared, params.tasks))
    weights = jnp.concatenate([leaf.ravel() for leaf in leaves])
    assert weights.size == network.layout(spec).num_weights
    np.testing.assert_allclose(costs[0] - costs[1], 7 * 0.03 * jnp.sum(weights**2), rtol=1e-4)
    generated = [one.loss(spec, weights, params.bounds, inputs, targets) for one in (network, free)]
    np.testing.assert_allclose(generated[0] - generated[1], costs[0] - costs[1], rtol=1e-4)


def test_point_likelihood_is_that_of_a_gaussian_of_unit_variance():
    raw, targets = jnp.array([1.0, 2.0, -1.0]), jnp.array([[0.0, 4.0, 1.0], [1.0, 1.0, 1.0]])
    ours = [float(PointHead().negative_log_likelihood({}, raw, y)) for y in targets]
    theirs = [-scipy.stats.norm(raw, 1.0).logpdf(y).sum() for y in targets]
    assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], rel=1e-5)


def test_unknown_choices_say_what_is_known(unchecked):
    with pytest.raises(UserError, match="point, gaussian"):
        Network(head="quantile")
    with pytest.raises(UserError, match="relu, elu, tanh, swish"):
        FullHypernet(activation="step")
    with pytest.raises(UserError, match="relu, elu, tanh, swish"):
        Network(activation="step")
    with pytest.raises(UserError, match="hyperfan"):
        ChunkedHypernet(initialisation="zeros")


def test_gradients_are_scaled_down_to_the_norm_asked_for_and_no_further():
    gradients = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}  # of norm 5
    clipped = clip_by_norm(gradients, 2.0)
    np.testing.assert_allclose(clipped["a"], [1.2, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], [[1.6]], rtol=1e-6)
    for norm in (5.0, 8.0):
        jax.tree.map(np.testing.assert_allclose, clip_by_norm(gradients, norm), gradients)


@BOTH
def test_pull_back_is_the_derivative_of_generate(config):
    params = config.init(LAYOUT, key=jax.random.key(0))
    embeddings = jax.random.normal(jax.random.key(1), (3, 4))
    slopes = jax.random.normal(jax.random.key(2), (3, LAYOUT.num_weights))
    weights, pull = config.pull_back(LAYOUT, params, embeddings)
    derived, derived_pull = jax.vjp(functools.partial(config.generate, LAYOUT), params, embeddings)
    compare = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    compare(weights, derived)
    jax.tree.map(compare, densify(pull(slopes)), derived_pull(slopes))


@pytest.mark.parametrize("max_norm", [1.0, 1e6])
def test_a_factored_gradient_is_clipped_like_the_matrix_it_stands_for(max_norm):
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    one, other = (OuterSum(draw(n, 4), draw(n, 50), (20, 20, 10)) for n in (3, 2))
    bias = draw(9)
    matrix = one.left.T @ one.right + other.left.T @ other.right
    dense = {"matrix": (matrix[:, :20], matrix[:, 20:40], matrix[:, 40:]), "bias": bias}
    factored = add_gradients({"matrix": one, "bias": bias}, {"matrix": other, "bias": 0 * bias})
    clipped = clip_by_norm(factored, max_norm)
    assert isinstance(clipped["matrix"], OuterSum)
    compare = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(compare, densify(clipped), clip_by_norm(dense, max_norm))


def test_adam_is_optax_s_to_rounding():
    rng = np.random.default_rng(0)
    params = {"small": jnp.zeros(7), "large": jnp.zeros((3, 5))}
    ours, theirs = adam(1e-3), optax.adam(1e-3)
    our_state, their_state = ours.init(params), theirs.init(params)
    for scale in (1.0, 1e-3, 10.0, 0.0, 1e-12):
        gradient = jax.tree.map(lambda x, s=scale: s * rng.normal(size=x.shape), params)
        our_step, our_state = ours.update(gradient, our_state)
        their_step, their_state = theirs.update(gradient, their_state)
        compare = functools.partial(np.testing.assert_allclose, rtol=1e-4)
        jax.tree.map(compare, our_step, their_step)


def test_a_matrix_in_several_blocks_is_the_same_as_whole(monkeypatch):
    """What a block boundary could break: order, the last narrow block, and all gradients."""
    embeddings = jax.random.normal(jax.random.key(1), (3, 4))
    slopes = jax.random.normal(jax.random.key(2), (3, LAYOUT.num_weights))

    def outcome():
        params = FULL.init(LAYOUT, key=jax.random.key(0))
        weights, pull = FULL.pull_back(LAYOUT, params, embeddings)
        gradient, embedding_gradient = pull(slopes)
        matrix = densify(gradient)["output"]["matrix"]
        return len(matrix), weights, np.concatenate(matrix, axis=1), embedding_gradient

    whole = outcome()
    monkeypatch.setattr(full_hypernet, "BLOCK", 16)
    blocks = outcome()
    assert whole[0] == 1
    assert blocks[0] > 2
    for one, other in zip(whole[1:], blocks[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
