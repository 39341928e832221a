"""Follow the leader: the recursive solution is the batch solution, whatever came in between."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.data.buffer import held_out
from hypercrl.dynamics.model import Network, prepare
from hypercrl.dynamics.sparse_features import SparseFeatures, absorb, init_factor, solve
from hypercrl.learners import ftl
from hypercrl.learners.ftl import FTL

SPEC = make_spec()
CAPACITY = 2_000
SMALL = FTL(num_grids=12, num_bins=4)


def learn(learner, state, task, counts):
    """One task with a session at each count of transitions."""
    state = learner.start_task(state, task, key=key(task))
    everything, info = linear_data(SPEC, task, count=CAPACITY, capacity=CAPACITY), {}
    for count in counts:
        data = everything._replace(count=jnp.array(count, jnp.int32))
        state, info = learner.update(state, data, None, num_updates=1, key=key(0))
    return state, data, info


def batch_solution(learner, state, data, task, centre):
    """Ridge regression on all training rows at once, in double precision."""
    inputs, targets = prepare(SPEC, state.normalizers.select(task), *data[:3])
    rows = [row for row in range(int(data.count)) if row // 20 % 4 != 3]
    features = np.asarray(learner.features.apply(state.projection, inputs), np.float64)[rows]
    targets = np.asarray(targets, np.float64)[rows]
    gram = features.T @ features + learner.ridge * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features.T @ targets + learner.ridge * centre)
    return weights, features, targets


def test_recursive_solution_equals_batch_least_squares():
    zeros = np.zeros((SMALL.features.size, SPEC.state_dim))
    state = SMALL.init(SPEC, 2, key=key(0))
    state, data, info = learn(SMALL, state, 0, counts=(900, 1_000, 1_001, 1_400, 1_999))
    expected, features, targets = batch_solution(SMALL, state, data, 0, zeros)
    np.testing.assert_allclose(state.weights[0], expected, atol=1e-5)
    error = np.mean((features @ expected - targets) ** 2)
    assert float(info["loss"]) == pytest.approx(error, rel=1e-3)

    # The next task meets the same inputs. It starts from these weights, under the normaliser
    # that they were fitted to, and keeps them where it has no data.
    state, data, _ = learn(SMALL, state, 1, counts=(1_000, 1_999))
    then, _, _ = batch_solution(SMALL, state, data, 0, np.asarray(state.weights[0], np.float64))
    np.testing.assert_allclose(state.weights[1], then, atol=1e-5)
    np.testing.assert_allclose(state.weights[0], expected, atol=1e-5)


def test_a_task_keeps_the_normaliser_that_its_predecessor_s_weights_belong_to():
    state, _, _ = learn(SMALL, SMALL.init(SPEC, 2, key=key(0)), 0, counts=(1_999,))
    state, _, _ = learn(SMALL, state, 1, counts=(1_000, 1_999))
    inherited, own = (state.normalizers.select(task) for task in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, inherited, own)
    np.testing.assert_array_equal(state.centre, state.weights[0])


@pytest.mark.parametrize("counts", [(1_999,), (40, 1_999)], ids=["at once", "later"])
def test_weights_of_other_features_are_no_centre(counts):
    """After a drift the ridge pulls to zero, also in the sessions that follow."""
    state, _, _ = learn(SMALL, SMALL.init(SPEC, 2, key=key(0)), 0, counts=(1_999,))
    state = SMALL.start_task(state, 1, key=key(1))
    still = linear_data(SPEC, 1, count=CAPACITY, capacity=CAPACITY)
    moved = still._replace(states=still.states + 3.0, next_states=still.next_states + 3.0)
    for count in counts:
        data = moved._replace(count=jnp.array(count, jnp.int32))
        state, _ = SMALL.update(state, data, None, num_updates=1, key=key(0))
    np.testing.assert_array_equal(state.centre, 0.0)
    zeros = np.zeros((SMALL.features.size, SPEC.state_dim))
    expected, _, _ = batch_solution(SMALL, state, data, 1, zeros)
    np.testing.assert_allclose(state.weights[1], expected, atol=1e-5)


def test_there_is_a_grid_for_six_hidden_units_unless_told_otherwise():
    assert FTL(network=Network(hidden=(200, 200))).features.num_grids == 66
    assert FTL(network=Network(hidden=(2,))).features.num_grids == 1
    assert FTL(num_grids=5).features.num_grids == 5


def test_rows_are_absorbed_once_and_anew_only_after_a_drift(monkeypatch):
    seen = []
    monkeypatch.setattr(ftl, "_absorb_rows", _spy(seen))
    state = SMALL.start_task(SMALL.init(SPEC, 1, key=key(0)), 0, key=key(0))
    still = linear_data(SPEC, 0, count=1_600, capacity=CAPACITY)
    for count in (800, 1_200):
        data = still._replace(count=jnp.array(count, jnp.int32))
        state, _ = ftl._session.__wrapped__(SMALL, state, data)
    fitted = state.normalizers.input_mean
    drifted = still._replace(states=still.states + 3.0, next_states=still.next_states + 3.0)
    state, _ = ftl._session.__wrapped__(SMALL, state, drifted)
    assert seen == [(0, 600), (600, 900), (0, 1_200)]
    assert not np.allclose(fitted, state.normalizers.input_mean, atol=1.0)


def _spy(seen):
    original = ftl._absorb_rows

    def absorb_rows(learner, state, data, normalizer, factor, start, count):
        seen.append((int(start), int(count)))
        return original(learner, state, data, normalizer, factor, start, count)

    return absorb_rows


def test_a_session_without_new_data_changes_nothing():
    state = SMALL.init(SPEC, 1, key=key(0))
    once, _, _ = learn(SMALL, state, 0, counts=(500,))
    twice, _, _ = learn(SMALL, state, 0, counts=(500, 500))
    np.testing.assert_array_equal(once.weights, twice.weights)


def test_features_are_sparse_local_and_add_up_to_one_on_every_grid():
    features = SparseFeatures(num_grids=5, num_bins=3)
    projection = features.init(4, key=key(0))
    x = 2.0 * jax.random.normal(key(1), (200, 4))
    grids = np.asarray(features.apply(projection, x)).reshape(200, 5, 16)
    assert grids.min() >= 0.0
    assert (grids > 0).sum(-1).max() <= 4
    np.testing.assert_allclose(grids.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(
        features.apply(projection, x[7]), grids[7].reshape(-1), rtol=1e-4, atol=1e-6
    )


def test_features_interpolate_between_the_nodes():
    """Along each side of a grid the mean of the nodes, weighted by φ, is the place itself."""
    features = SparseFeatures(num_grids=2, num_bins=6)
    projection = features.init(3, key=key(0))
    x = jax.random.normal(key(1), (50, 3))
    grids = np.asarray(features.apply(projection, x)).reshape(50, 2, 7, 7)
    place = 6 * jax.nn.sigmoid(1.702 * (x @ projection)).reshape(50, 2, 2)
    nodes = np.arange(7)
    np.testing.assert_allclose(grids.sum(3) @ nodes, place[:, :, 0], rtol=1e-4)
    np.testing.assert_allclose(grids.sum(2) @ nodes, place[:, :, 1], rtol=1e-4)


def test_factor_without_data_returns_its_centre():
    centre = jax.random.normal(key(0), (6, 2))
    weights, minimum = solve(init_factor(centre, ridge=0.3), 2)
    np.testing.assert_allclose(weights, centre, rtol=1e-5)
    assert minimum == 0.0


def test_order_and_grouping_of_rows_do_not_matter():
    phi, y = jax.random.normal(key(0), (40, 6)), jax.random.normal(key(1), (40, 2))
    start = init_factor(jnp.zeros((6, 2)), ridge=0.1)
    whole, least = solve(absorb(start, phi, y), 2)
    factor = start
    for rows in (slice(30, 40), slice(0, 7), slice(7, 30)):
        factor = absorb(factor, phi[rows], y[rows])
    parts, also_least = solve(factor, 2)
    np.testing.assert_allclose(parts, whole, atol=1e-5)
    assert float(least) == pytest.approx(float(also_least), rel=1e-4)


def test_nonlinear_dynamics_are_learnt():
    learner = FTL(num_grids=40)
    data = linear_data(SPEC, 0, count=CAPACITY, capacity=CAPACITY)
    bent = data._replace(next_states=data.states + jnp.tanh(data.next_states - data.states))
    state = learner.start_task(learner.init(SPEC, 1, key=key(0)), 0, key=key(0))
    state, _ = learner.update(state, bent, None, num_updates=1, key=key(0))
    states, actions, targets = (x[held_out(CAPACITY)] for x in bent[:3])
    wrong = np.square(jax.vmap(learner.predict(state, 0))(states, actions) - targets).mean()
    assert wrong < 0.05 * np.square(targets - states).mean()
