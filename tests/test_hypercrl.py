"""HyperCRL: the regulariser, the look-ahead, what is frozen, and what it can learn."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.random import key

from hypercrl.contracts.sequence import linear_data, linear_system, make_spec
from hypercrl.data.buffer import is_training
from hypercrl.dynamics.basis_hypernet import BasisHypernet
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.low_rank_hypernet import LowRankHypernet
from hypercrl.dynamics.model import Network, prepare
from hypercrl.dynamics.residual_hypernet import ResidualHypernet
from hypercrl.errors import UserError
from hypercrl.learners.hypercrl import (
    HyperCRL,
    Update,
    anchors_of,
    gradients_of_losses,
    lookahead_point,
    starting_weights,
)
from hypercrl.learning.gradients import densify
from hypercrl.learning.prediction_regulariser import PredictionRegulariser
from hypercrl.learning.regulariser import OldTasks
from hypercrl.learning.training import Training
from hypercrl.learning.weight_regulariser import WeightRegulariser

SPEC = make_spec()
SMALL = HyperCRL(
    network=Network(hidden=(16,), scale_targets=True),
    hypernet=FullHypernet(hidden=(8,), embedding_dim=4),
    learning_rate=1e-3,
)
HYPERNETS = {
    "full": SMALL.hypernet,
    "chunked": ChunkedHypernet(hidden=(8,), embedding_dim=4, chunk_size=30),
    "low_rank": LowRankHypernet(hidden=(8,), embedding_dim=4, rank=3),
    "low_rank on a frozen base": LowRankHypernet(embedding_dim=4, rank=3, base="frozen"),
    "basis": BasisHypernet(hidden=(8,), embedding_dim=4, num_vectors=2),
    "residual": ResidualHypernet(hidden=(8,), embedding_dim=4, chunk_size=30),
}
COMMON = ("full", "chunked")  # the others cost the fast tests too much
REGULARISERS = {
    "weights": WeightRegulariser(0.05),
    "weights of one task": WeightRegulariser(0.05, regularised_tasks=1),
    "predictions": PredictionRegulariser(2.0),
}
EVERY_HYPERNET = pytest.mark.parametrize(
    "hypernet",
    [
        pytest.param(hypernet, id=name, marks=() if name in COMMON else pytest.mark.slow)
        for name, hypernet in HYPERNETS.items()
    ],
)
EVERY_REGULARISER = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=pytest.mark.slow if "one task" in name else ())
        for name, kind in REGULARISERS.items()
    ],
)
DRAW = jax.random.key(7)
LAYOUT = SMALL.network.layout(SPEC)
START = jnp.zeros(())  # of a session


def learn(learner, seeds, num_updates=200, num_tasks=3):
    """States after each task of a sequence of linear systems."""
    state, history = learner.init(SPEC, num_tasks, key=key(0)), []
    for task, seed in enumerate(seeds):
        state = learner.start_task(state, task, key=key(100 + task))
        data = linear_data(SPEC, seed)
        state, _ = learner.update(state, data, None, num_updates=num_updates, key=key(task))
        state = learner.end_task(state, data, key=key(200 + task))
        history.append(state)
    return history


def old_tasks(learner, state, rows):
    size, network = learner.training.batch_size, learner.network
    return OldTasks(rows, state.task, state.kept, size, network, state.params["head"], SPEC)


@eqx.filter_jit
def regulariser(learner, state, params=None):
    """L_reg as an update with the key `DRAW` would see it."""
    params = state.params if params is None else params
    rows = learner.regulariser.rows(state.task, len(state.embeddings), DRAW)
    weights = learner.hypernet.generate(LAYOUT, params["hypernet"], state.embeddings[rows])
    old = old_tasks(learner, state, rows)
    return learner.regulariser.penalty(weights, anchors_of(learner, state, rows), old, DRAW)


def test_regulariser_is_zero_at_a_task_s_first_update():
    state = learn(SMALL, [1, 2])[-1]
    assert float(regulariser(SMALL, state)) > 0
    state = SMALL.start_task(state, 2, key=key(5))
    assert float(regulariser(SMALL, state)) == 0.0


@pytest.mark.parametrize("num_finished", [1, 2, 3])
def test_regulariser_is_the_mean_over_finished_tasks(num_finished):
    """β / (t − 1) Σ ‖…‖², per transition, from weights that are written down."""
    learner = dataclasses.replace(
        SMALL, regulariser=WeightRegulariser(0.5), training=Training(batch_size=7)
    )
    state = learner.init(SPEC, 5, key=key(0)).replace(task=jnp.array(num_finished))
    weights = jnp.array([[1.0, 2.0], [0.0, 3.0], [2.0, 2.0], [9.0, 9.0], [9.0, 9.0]])
    anchors = jnp.array([[1.0, 0.0], [4.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    squares = [4.0, 16.0 + 9.0, 4.0]
    expected = 7 * 0.5 * sum(squares[:num_finished]) / num_finished
    old = old_tasks(learner, state, jnp.arange(5))
    found = learner.regulariser.penalty(weights, anchors, old, DRAW)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_a_few_tasks_stand_for_all():
    """As long as there are no more than asked for all are held, and then as many as asked for."""
    kind = WeightRegulariser(0.5, regularised_tasks=2)
    learner = dataclasses.replace(SMALL, regulariser=kind, training=Training(batch_size=7))
    state = learner.init(SPEC, 5, key=key(0))
    moved = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0])[:, None]  # of each task, one weight

    def penalty(num_finished, draw):
        rows = kind.rows(jnp.array(num_finished), 5, draw)
        old = old_tasks(learner, state.replace(task=jnp.array(num_finished)), rows)
        return float(kind.penalty(moved[rows], jnp.zeros((2, 1)), old, draw)) / (7 * 0.5)

    assert penalty(0, DRAW) == 0.0
    assert penalty(1, DRAW) == pytest.approx(1.0)
    assert penalty(2, DRAW) == pytest.approx((1 + 4) / 2)
    found = [penalty(4, draw) for draw in jax.random.split(DRAW, 500)]
    pairs = {(i * i + j * j) / 2 for i in range(1, 5) for j in range(1, 5)}
    assert set(np.round(found, 3)) == pairs
    assert np.mean(found) == pytest.approx((1 + 4 + 9 + 16) / 4, rel=0.1)


def test_a_session_on_the_fourth_task_reports_the_mean_over_three():
    """Of two updates the first starts where nothing has moved, the second one step further."""
    learner = dataclasses.replace(SMALL, lookahead=False)
    start = learner.start_task(learn(learner, [1, 2, 3], num_tasks=5)[-1], 3, key=key(5))
    data = linear_data(SPEC, 4)
    once, _ = learner.update(start, data, None, num_updates=1, key=key(1))
    _, info = learner.update(start, data, None, num_updates=2, key=key(1))
    then, now = (
        np.asarray(learner.hypernet.generate(LAYOUT, s.params["hypernet"], start.embeddings[:3]))
        for s in (start, once)
    )
    expected = learner.regulariser.strength / 3 * np.square(now - then).sum()
    assert expected > 0
    assert float(info["regulariser"]) == pytest.approx(expected / 2, rel=1e-3)


@pytest.mark.parametrize("lookahead", [True, False])
def test_hypernetwork_and_embedding_are_clipped_apart(lookahead):
    """Each gradient alone is brought to the norm asked for; Adam's first moment tells its size."""
    learner = dataclasses.replace(
        SMALL, lookahead=lookahead, training=Training(max_gradient_norm=1e-3)
    )
    state = learner.start_task(learn(learner, [1, 2])[-1], 2, key=key(5))
    state, _ = learner.update(state, linear_data(SPEC, 3), None, num_updates=1, key=key(1))
    for moments in (state.optimizer, state.embedding_optimizer):
        norm = optax.tree.norm(moments.mu) / (1 - 0.9)
        assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def test_the_embedding_learns_at_the_hypernetwork_s_rate_unless_told_otherwise():
    same, slower = (
        dataclasses.replace(SMALL, embedding_learning_rate=rate) for rate in (1e-3, 1e-5)
    )
    ends = [learn(learner, [1])[-1].embeddings[0] for learner in (SMALL, same, slower)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.abs(ends[0] - ends[2]).max() > 1e-2


@EVERY_HYPERNET
@EVERY_REGULARISER
def test_regulariser_s_gradient_agrees_with_finite_differences(kind, hypernet):
    learner = dataclasses.replace(SMALL, regulariser=kind, hypernet=hypernet)
    with jax.enable_x64(True):
        state = jax.tree.map(
            lambda x: x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x,
            learn(learner, [1, 2])[-1],
        )
        rng = np.random.default_rng(0)
        direction = jax.tree.map(lambda x: jnp.array(rng.normal(size=x.shape)), state.params)
        gradient = jax.grad(lambda p: regulariser(learner, state, p))(state.params)
        slope = sum(
            jnp.vdot(a, b)
            for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
        )
        at = lambda h: regulariser(  # noqa: E731
            learner, state, jax.tree.map(lambda p, d: p + h * d, state.params, direction)
        )
        numeric = (at(1e-6) - at(-1e-6)) / 2e-6
    assert float(slope) == pytest.approx(float(numeric), rel=1e-5)


def test_lookahead_point_is_adam_s_step():
    state = learn(SMALL, [1])[-1]
    gradient = jax.tree.map(jnp.ones_like, state.params)
    adam = optax.adam(SMALL.learning_rate)
    step, _ = adam.update(gradient, (state.optimizer, optax.EmptyState()))
    expected = optax.apply_updates(state.params, step)
    actual = lookahead_point(SMALL, state.params, gradient, state.optimizer, START)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), actual, expected)


def test_lookahead_point_shrinks_with_the_steps():
    state = learn(SMALL, [1])[-1]
    gradient = jax.tree.map(jnp.ones_like, state.params)
    annealing = dataclasses.replace(SMALL, training=Training(anneal=True))
    first, half = (
        lookahead_point(annealing, state.params, gradient, state.optimizer, jnp.array(p))
        for p in (0.0, 0.5)
    )
    between = jax.tree.map(lambda x, y: (x + y) / 2, state.params, first)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), half, between)


def test_lookahead_regularises_from_the_first_update_on():
    """Without it the first step of a task is free: L_reg and its gradient are zero there."""
    start = SMALL.start_task(learn(SMALL, [1])[-1], 1, key=key(5))
    data = linear_data(SPEC, 2)
    _, ahead = SMALL.update(start, data, None, num_updates=1, key=key(1))
    plain = dataclasses.replace(SMALL, lookahead=False)
    _, here = plain.update(start, data, None, num_updates=1, key=key(1))
    assert float(here["regulariser"]) == 0.0
    assert float(ahead["regulariser"]) > 0.0
    assert float(ahead["loss"]) == pytest.approx(float(here["loss"]), rel=1e-5)


@EVERY_HYPERNET
@EVERY_REGULARISER
@pytest.mark.parametrize("lookahead", [True, False])
def test_an_update_follows_the_gradient_of_the_two_losses(lookahead, kind, hypernet):
    """Against automatic differentiation of L_dyn and L_reg as they are written down."""
    learner = dataclasses.replace(SMALL, hypernet=hypernet, regulariser=kind, lookahead=lookahead)
    state = learn(learner, [1, 2])[-1]
    batch = jnp.ones((4, 5)), jnp.ones((4, 3))

    @jax.jit
    def fit(params, embedding):
        weights = hypernet.generate(LAYOUT, params["hypernet"], embedding[None])[0]
        return learner.network.loss(SPEC, weights, params["head"], *batch)

    params, embedding = state.params, state.embeddings[state.task]
    slope, embedding_slope = jax.grad(fit, argnums=(0, 1))(params, embedding)
    ahead = eqx.filter_jit(lookahead_point)
    at = ahead(learner, params, slope, state.optimizer, START) if lookahead else params
    pull = jax.grad(lambda p: regulariser(learner, state, p))(at)
    expected = jax.tree.map(jnp.add, slope, pull), embedding_slope

    @jax.jit
    def follow(state):
        carry = (params, state.embeddings, state.optimizer, state.embedding_optimizer)
        rows = kind.rows(state.task, len(state.embeddings), DRAW)
        weights = starting_weights(learner, state, params, state.embeddings, rows)
        anchors = anchors_of(learner, state, rows)
        update = Update(carry, weights, anchors, batch, rows, START, DRAW)
        gradients, losses = gradients_of_losses(learner, state, update)
        return densify(gradients), losses

    gradients, losses = follow(state)
    compare = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    jax.tree.map(compare, gradients, expected)
    by_hand = (fit(params, embedding), regulariser(learner, state, at))
    np.testing.assert_allclose(losses, by_hand, rtol=1e-4)


def test_old_embeddings_and_normalisers_never_change():
    first, second, third = learn(SMALL, [1, 2, 3])
    np.testing.assert_array_equal(first.embeddings[0], third.embeddings[0])
    np.testing.assert_array_equal(second.embeddings[1], third.embeddings[1])
    for name in ("input_mean", "input_std", "output_scale"):
        old, new = getattr(second.normalizers, name), getattr(third.normalizers, name)
        np.testing.assert_array_equal(old[:2], new[:2])
    assert not np.array_equal(first.embeddings[0], third.embeddings[2])


def test_the_current_embedding_is_trained():
    state = SMALL.init(SPEC, 2, key=key(0))
    state = SMALL.start_task(state, 0, key=key(1))
    after, _ = SMALL.update(state, linear_data(SPEC, 1), None, num_updates=5, key=key(2))
    assert not np.array_equal(state.embeddings[0], after.embeddings[0])


def old_task_shift(learner) -> float:
    """How far task 1's weights have moved after learning task 2."""
    first, second = learn(learner, [1, 2], num_updates=400)
    then, now = (jax.tree.leaves(learner.predict(s, 0).predictor) for s in (first, second))
    return float(sum(((a - b) ** 2).sum() for a, b in zip(then, now, strict=True)))


def test_beta_holds_old_weights_and_zero_lets_them_go():
    free = old_task_shift(dataclasses.replace(SMALL, regulariser=WeightRegulariser(0.0)))
    held = old_task_shift(dataclasses.replace(SMALL, regulariser=WeightRegulariser(0.05)))
    assert held < 0.05 * free


def old_task_error(learner) -> float:
    """How much worse task 1 is predicted on its own data after learning task 2."""
    first, second = learn(learner, [1, 2], num_updates=400)
    data = linear_data(SPEC, 1)

    def error(state):
        found = jax.vmap(learner.predict(state, 0))(data.states, data.actions)
        return float(((found - data.next_states) ** 2).mean())

    return error(second) - error(first)


def test_predictions_are_held_while_weights_move():
    kinds = (PredictionRegulariser(0.0), PredictionRegulariser(3.0))
    free, held = (dataclasses.replace(SMALL, regulariser=kind) for kind in kinds)
    assert old_task_error(held) < 0.1 * old_task_error(free)
    assert old_task_shift(held) > 0.01 * old_task_shift(free)


@pytest.mark.parametrize(("num_old", "expected"), [(0, 0), (1, 3), (4, 3), (6, 4.5), (40, 30)])
def test_many_old_tasks_raise_the_strength_so_that_none_is_held_less(num_old, expected):
    """λ max(1, n / m) per transition, for predictions that have all moved by one."""
    kind = PredictionRegulariser(3.0, sharers=4)
    learner = dataclasses.replace(SMALL, regulariser=kind, training=Training(batch_size=7))
    state = learner.init(SPEC, 45, key=key(0)).replace(task=jnp.array(num_old))
    anchor = jax.random.normal(key(1), (1, LAYOUT.num_weights))
    moved = anchor.at[:, -SPEC.encoding.num_outputs :].add(1.0)  # the last layer's biases
    old = old_tasks(learner, state, learner.regulariser.rows(state.task, 45, DRAW))
    found = learner.regulariser.penalty(moved, anchor, old, DRAW)
    assert float(found) / 7 == pytest.approx(expected, rel=1e-5)


def test_a_gaussian_is_held_as_hard_as_it_was_sure():
    """A mean that was sure has moved and is unsure now; the other way round counts less."""
    network = dataclasses.replace(SMALL.network, head="gaussian_beta")
    learner = dataclasses.replace(
        SMALL, network=network, regulariser=PredictionRegulariser(3.0), training=Training(1)
    )
    state = learner.init(SPEC, 2, key=key(0)).replace(task=jnp.array(1))
    old = old_tasks(learner, state, jnp.array([0]))
    outputs = SPEC.encoding.num_outputs
    sure, unsure = (
        jnp.repeat(jnp.array([mean, log_variance]), outputs)
        for mean, log_variance in ((0.0, -2.0), (1.0, -1.0))
    )
    size = network.layout(SPEC).num_weights  # all 0, but for the last layer's biases
    before, now = (jnp.zeros((1, size)).at[0, -2 * outputs :].set(raw) for raw in (sure, unsure))
    found = learner.regulariser.penalty(now, before, old, DRAW)
    expected = 3 * HEADS["gaussian_beta"].divergence(old.head, sure, unsure)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert float(learner.regulariser.penalty(before, now, old, DRAW)) < 0.9 * float(found)


def kept_of_one_task(regions: int):
    """What a regulariser keeps of a task, its training inputs, and the method."""
    data = linear_data(SPEC, 1)
    learner = dataclasses.replace(SMALL, regulariser=PredictionRegulariser(regions=regions))
    state = learn(learner, [1])[-1]
    inputs, _ = prepare(SPEC, state.normalizers.select(0), *data[:3])
    rows = np.flatnonzero(np.asarray(is_training(jnp.arange(int(data.count)))))
    return learner, state, np.asarray(inputs)[rows]


@pytest.mark.parametrize("regions", [1, 4])
def test_pseudo_inputs_have_the_task_s_own_moments(regions):
    learner, state, inputs = kept_of_one_task(regions)
    drawn = np.asarray(learner.regulariser.draw(state.kept, 0, 20_000, key=key(7)))
    np.testing.assert_allclose(drawn.mean(0), inputs.mean(0), atol=0.25)
    expected = np.cov(inputs, rowvar=False, bias=True)
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), expected, atol=0.3)
    for leaf in jax.tree.leaves(state.kept):
        assert leaf[0].any() and not leaf[1:].any()


@pytest.mark.parametrize("regions", [1, 4, 64])
def test_nothing_that_is_kept_of_a_task_is_one_of_its_inputs(regions):
    _, state, inputs = kept_of_one_task(regions)
    centres = np.asarray(state.kept.centres[0])
    distances = np.linalg.norm(centres[:, None] - inputs[None], axis=-1)
    assert distances.min() > 1e-3


def test_a_new_embedding_is_random_or_the_mean_of_those_before(unchecked):
    """With one task before, the second starts with exactly its network."""
    for choice in ("random", "mean"):
        learner = dataclasses.replace(SMALL, new_embedding=choice)
        state = learn(learner, [1, 2])[-1]
        state = learner.start_task(state, 2, key=key(5))
        start, mean = state.embeddings[2], state.embeddings[:2].mean(0)
        assert np.allclose(start, mean, atol=1e-6) == (choice == "mean")
    first = learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(5)).embeddings[0]
    assert float(jnp.abs(first).max()) > 0.1
    with pytest.raises(UserError, match="new_embedding"):
        dataclasses.replace(SMALL, new_embedding="zero")


def test_a_frozen_base_is_neither_stored_nor_moved():
    small = LowRankHypernet(rank=3, base="frozen")
    params = small.init(LAYOUT, key=key(0))
    assert "base" not in params
    zero = jax.tree.map(jnp.zeros_like, params)
    first, second = (
        small.generate(LAYOUT, zero, jax.random.normal(key(i), (1, 10))) for i in (1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert float(jnp.abs(first).max()) > 0.1


@pytest.mark.parametrize(
    ("hypernet", "share"),
    [(BasisHypernet(), 0.5), (ResidualHypernet(chunk_size=500), 0.1)],
    ids=["basis", "residual"],
)
def test_a_new_embedding_starts_near_the_base(hypernet, share):
    layout = Network(hidden=(60, 60)).layout(SPEC)
    params = hypernet.init(layout, key=key(0))
    weights = hypernet.generate(layout, params, jax.random.normal(key(1), (200, 10)))
    difference = weights - params["base"][None]
    assert float(jnp.std(difference) / jnp.std(params["base"])) == pytest.approx(share, rel=0.15)
    # Tasks differ, and the gradient reaches all that is shared.
    assert float(jnp.std(weights, axis=0).mean()) > 0.1 * share * float(jnp.std(params["base"]))
    _, pull = hypernet.pull_back(layout, params, jnp.ones((1, 10)))
    gradient, _ = pull(jnp.ones_like(weights[:1]))
    np.testing.assert_array_equal(gradient["base"], 1.0)


@pytest.mark.parametrize("base", ["trained", "frozen"])
def test_low_rank_differences_start_at_half_the_base_s_size(base):
    layout = Network(hidden=(60, 60)).layout(SPEC)
    hypernet = LowRankHypernet(rank=16, base=base)
    params = hypernet.init(layout, key=key(0))
    embeddings = jax.random.normal(key(1), (200, 10))
    weights = hypernet.generate(layout, params, embeddings)
    middle = jax.vmap(lambda row: layout.unflatten(row)[1][0])(weights)
    spread = float((middle - middle.mean(0, keepdims=True)).std())
    assert spread == pytest.approx(0.5 * (2 / 120) ** 0.5, rel=0.25)


@pytest.mark.parametrize(
    ("hypernet", "head"),
    [
        (FullHypernet(hidden=(16,), embedding_dim=4), "gaussian"),
        (ChunkedHypernet(hidden=(16,), embedding_dim=4, chunk_size=32), "point"),
    ],
    ids=["full", "chunked"],
)
def test_a_linear_system_is_identified(hypernet, head):
    """Jacobians of the learnt step equal the true matrices to 1e-3 of their size."""
    learner = HyperCRL(
        network=Network(hidden=(), head=head, scale_targets=True),
        hypernet=hypernet,
        learning_rate=3e-3,
    )
    state = learn(learner, [1], num_updates=3000, num_tasks=1)[-1]
    fine = dataclasses.replace(learner, learning_rate=1e-4, embedding_learning_rate=3e-3)
    state, _ = fine.update(state, linear_data(SPEC, 1), None, num_updates=3000, key=key(9))
    model = learner.predict(state, 0)
    a, b = linear_system(SPEC, 1)
    by_state, by_action = jax.jacobian(model, argnums=(0, 1))(jnp.zeros(3), jnp.zeros(2))
    np.testing.assert_allclose(by_state, (np.eye(3) + a).T, atol=1e-3)
    np.testing.assert_allclose(by_action, b.T, atol=1e-3)


def test_sessions_compile_once_for_all_tasks_and_data():
    compiled = []

    class Watch:
        def __call__(self, event, duration, **kwargs):
            if event == "/jax/core/compile/backend_compile_duration":
                compiled.append(event)

    # A configuration that nothing else has compiled.
    learner = dataclasses.replace(SMALL, regulariser=WeightRegulariser(0.123))
    state = learner.init(SPEC, 3, key=key(0))
    watch = Watch()
    counts = []
    jax.monitoring.register_event_duration_secs_listener(watch)
    try:
        for task in range(3):
            state = learner.start_task(state, task, key=key(task))
            for count in (40, 400):
                data = linear_data(SPEC, task, count=count)
                state, _ = learner.update(state, data, None, num_updates=count, key=key(7))
                learner.predict(state, 0)
            state = learner.end_task(state, data, key=key(8))
            counts.append(len(compiled))
    finally:
        jax.monitoring.clear_event_listeners()
    assert counts[0] > 0
    assert counts == [counts[0]] * 3
