"""The oracles: every update revisits every task, with nothing held back."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.random import key

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.data.buffer import sample_rows
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.model import Network, prepare
from hypercrl.learners.hypercrl_mt import HyperCRLMT
from hypercrl.learners.multitask import MultiTask
from hypercrl.learning.gradients import clip_by_norm
from hypercrl.learning.rehearsal import draw_rows, sum_over_old_tasks
from hypercrl.learning.training import Training
from hypercrl.types import Memory

SPEC = make_spec()
COUNT = 80


def memory_of(task: int, num_tasks: int) -> Memory:
    """All transitions of one finished task."""
    data = linear_data(SPEC, task, count=COUNT, capacity=COUNT)
    arrays = [jnp.zeros((num_tasks, *x.shape)).at[task].set(x) for x in data[:3]]
    return Memory(*arrays, jnp.zeros(num_tasks, jnp.int32).at[task].set(COUNT))


def two_tasks(learner, num_updates):
    """The state when the second task starts, its data, the memory, and the state afterwards."""
    state = learner.init(SPEC, 3, key=key(0))
    empty = Memory(*(jnp.zeros_like(x) for x in memory_of(0, 3)))
    state = learner.start_task(state, 0, key=key(1))
    first = linear_data(SPEC, 0, count=COUNT, capacity=COUNT)
    state, _ = learner.update(state, first, empty, num_updates=10, key=key(2))
    started = learner.start_task(learner.end_task(state, first, key=key(3)), 1, key=key(4))
    data = linear_data(SPEC, 1, count=COUNT, capacity=COUNT)
    after, info = learner.update(
        started, data, memory_of(0, 3), num_updates=num_updates, key=key(5)
    )
    return started, data, after, info


def test_two_tasks_equal_joint_training_on_the_pooled_batches():
    num_updates, batch_size, head = 12, 16, "gaussian"
    learner = MultiTask(
        network=Network(hidden=(6, 5), head=head), training=Training(batch_size=batch_size)
    )
    state, data, after, _ = two_tasks(learner, num_updates)
    old = linear_data(SPEC, 0, count=COUNT, capacity=COUNT)
    sets = [
        prepare(SPEC, after.normalizers.select(task), *transitions[:3])
        for task, transitions in enumerate((old, data))
    ]
    loss_of, build = jax.vmap(HEADS[head].loss), learner.parts.architecture.build

    @jax.grad
    def pooled_gradient(params, inputs, targets, heads):
        """One batch of samples from both tasks, each with its own head."""
        outputs = jax.vmap(lambda task, x: build(SPEC, params.of(task), None)(x))(heads, inputs)
        bounds = jax.tree.map(lambda x: x[heads], params.bounds)
        spread = [HEADS[head].penalty(params.of(task).bounds) for task in (0, 1)]
        return loss_of(bounds, outputs, targets).sum() + sum(spread)

    adam = optax.adam(learner.learning_rate)

    @jax.jit
    def step(params, optimizer, i):
        row_key, memory_key = jax.random.split(jax.random.fold_in(key(5), i))
        rows = (
            draw_rows(jax.random.fold_in(memory_key, 0), jnp.array(COUNT), batch_size),
            sample_rows(row_key, jnp.array(COUNT), batch_size),
        )
        inputs, targets = (
            jnp.concatenate([sets[task][k][rows[task]] for task in (0, 1)]) for k in (0, 1)
        )
        gradient = pooled_gradient(params, inputs, targets, jnp.repeat(jnp.arange(2), batch_size))
        gradient = clip_by_norm(gradient, learner.training.max_gradient_norm)
        updates, optimizer = adam.update(gradient, optimizer)
        return optax.apply_updates(params, updates), optimizer

    params, optimizer = state.params, jax.jit(adam.init)(state.params)
    for i in range(num_updates):
        params, optimizer = step(params, optimizer, i)

    moved = jnp.abs(state.params.tasks[0] - after.params.tasks[0]).max()
    assert moved > 1e-3  # the old task's head is trained, too
    for one, other in zip(jax.tree.leaves(after.params), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_only_old_tasks_enter_the_sum():
    @jax.jit
    def total(task, rows):
        return sum_over_old_tasks(lambda i, row: row * (i + 1.0), task, rows)

    rows = jnp.array([1.0, 10.0, 100.0, jnp.nan])
    assert [float(total(jnp.array(t), rows)) for t in range(4)] == [0.0, 1.0, 21.0, 321.0]
    slopes = jax.jit(jax.grad(total, argnums=1))(jnp.array(2), rows)
    assert slopes.tolist() == [1.0, 2.0, 0.0, 0.0]


def test_hypernetwork_oracle_takes_the_step_of_the_summed_losses():
    learner = HyperCRLMT(
        network=Network(hidden=(6,)),
        hypernet=FullHypernet(hidden=(5,), embedding_dim=4),
        training=Training(batch_size=16),
        learning_rate=1e-2,
    )
    state, data, after, info = two_tasks(learner, 1)
    row_key, memory_key = jax.random.split(jax.random.fold_in(key(5), 0))
    old_rows = draw_rows(jax.random.fold_in(memory_key, 0), jnp.array(COUNT), 16)
    rows = (old_rows, sample_rows(row_key, jnp.array(COUNT), 16))
    old = linear_data(SPEC, 0, count=COUNT, capacity=COUNT)
    sets = [
        prepare(SPEC, after.normalizers.select(task), *transitions[:3])
        for task, transitions in enumerate((old, data))
    ]

    def losses(params):
        weights = learner.generate(params, SPEC)
        return [
            learner.network.loss(
                SPEC,
                weights[task],
                params["head"],
                sets[task][0][rows[task]],
                sets[task][1][rows[task]],
            )
            for task in (0, 1)
        ]

    @jax.jit
    def step(params):
        gradient = jax.grad(lambda p: sum(losses(p)))(params)
        clipped = clip_by_norm(gradient, learner.training.max_gradient_norm)
        adam = optax.adam(learner.learning_rate)
        updates, _ = adam.update(clipped, adam.init(params))
        return optax.apply_updates(params, updates), gradient, losses(params)

    expected, gradient, before = step(state.params)
    assert jnp.abs(gradient["embeddings"]).max(axis=1).astype(bool).tolist() == [True, True, False]
    for one, other in zip(jax.tree.leaves(after.params), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    recorded = [float(info["regulariser"]), float(info["loss"])]
    assert recorded == pytest.approx([float(x) / 16 for x in before], rel=1e-4)
