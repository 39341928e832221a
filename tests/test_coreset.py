"""The coreset: what is kept, how it is drawn, and through which head it goes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hypercrl.contracts.sequence import make_spec
from hypercrl.data.buffer import held_out
from hypercrl.data.memory import TaskMemory
from hypercrl.dynamics.model import Network
from hypercrl.errors import UserError
from hypercrl.learners.coreset import Coreset
from hypercrl.learning.rehearsal import Kept, draw_from_union
from hypercrl.learning.training import Training

SPEC = make_spec()


def numbered(total: int) -> dict[str, np.ndarray]:
    """Transitions that carry their own row number."""
    rows = np.arange(total, dtype=np.float32)[:, None]
    return {
        "states": np.tile(rows, (1, SPEC.state_dim)),
        "actions": np.tile(rows, (1, SPEC.action_dim)),
        "next_states": np.tile(rows, (1, SPEC.state_dim)),
    }


def kept_rows(total: int, seed: int, share: float = 0.01) -> np.ndarray:
    memory = TaskMemory(SPEC, 2, total, share)
    memory.keep(0, numbered(total), np.random.default_rng(seed))
    view = memory.view()
    assert view is not None
    count = int(view.counts[0])
    rows = np.asarray(view.states[0, :count, 0])
    np.testing.assert_array_equal(view.actions[0, :count, 1], rows)
    np.testing.assert_array_equal(view.next_states[0, :count, 2], rows)
    return rows


@pytest.mark.parametrize("total", [100, 1_000, 5_000, 60_000])
def test_exactly_one_per_cent_is_kept_without_repeats(total):
    rows = kept_rows(total, seed=0)
    assert len(rows) == len(set(rows)) == total // 100
    assert rows.min() >= 0 and rows.max() < total
    assert not set(rows) & set(held_out(total))


def test_the_sample_is_uniform():
    num_draws, num_bins = 500, 10
    rows = np.concatenate([kept_rows(800, seed) for seed in range(num_draws)])
    counts = np.histogram(rows, bins=num_bins, range=(0, 800))[0]  # as many to train in each
    expected = len(rows) / num_bins
    assert np.abs(counts - expected).max() < 4 * np.sqrt(expected)


def test_the_oracle_keeps_everything_that_was_trained_on():
    trained = [row for row in range(123) if row // 20 != 3]
    np.testing.assert_array_equal(kept_rows(123, seed=0, share=1.0), trained)


def test_memory_survives_a_round_trip_and_counts_its_bytes():
    memory = TaskMemory(SPEC, 3, 1_000, 0.01)
    for task in range(2):
        memory.keep(task, numbered(1_000), np.random.default_rng(task))
    other = TaskMemory(SPEC, 3, 1_000, 0.01)
    other.set_state(memory.get_state())
    first, second = memory.view(), other.view()
    assert first is not None and second is not None
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
    assert memory.num_bytes == other.num_bytes == 2 * 10 * 4 * (3 + 2 + 3)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_impossible_shares_are_refused(share):
    with pytest.raises(UserError, match="between 0 and 1"):
        TaskMemory(SPEC, 2, 100, share)
    with pytest.raises(UserError, match="memory_share"):
        Coreset(memory_share=share)


def test_the_share_is_a_setting():
    assert Coreset().memory_share == 0.01
    assert len(kept_rows(1_000, seed=0, share=Coreset(memory_share=0.3).memory_share)) == 300


def test_every_kept_transition_is_equally_likely_whatever_its_task():
    counts = jnp.array([3, 0, 5, 0])
    num_draws = 8_000
    tasks, rows = draw_from_union(jax.random.key(0), counts, num_draws)
    drawn = np.zeros((4, 6))
    np.add.at(drawn, (np.asarray(tasks), np.asarray(rows)), 1)
    expected = num_draws / 8
    possible = np.arange(6) < np.asarray(counts)[:, None]
    assert np.abs(drawn[possible] - expected).max() < 5 * np.sqrt(expected)
    assert drawn[~possible].sum() == 0


def test_rehearsal_sends_every_transition_through_its_own_head():
    learner = Coreset(
        network=Network(hidden=(6, 5), head="gaussian"), training=Training(batch_size=12)
    )
    architecture, _, rehearsal = learner.parts
    assert rehearsal is not None
    params = learner.init(SPEC, 3, key=jax.random.key(0)).params
    rng = np.random.default_rng(0)
    kept = Kept(
        jnp.asarray(rng.normal(size=(3, 4, 5)), jnp.float32),
        jnp.asarray(rng.normal(size=(3, 4, 3)), jnp.float32),
        jnp.array([4, 2, 0]),
    )
    key = jax.random.key(1)

    tasks, rows = (drawn.tolist() for drawn in draw_from_union(key, kept.counts, 12))

    @jax.jit
    @jax.value_and_grad
    def one_by_one(params):
        total = 0.0
        for i, r in zip(tasks, rows, strict=True):
            own = params.of(i)
            x, y = kept.inputs[i, r][None], kept.targets[i, r][None]
            error = architecture.losses(SPEC, own, None, x, y)[0]
            spread = architecture.loss(SPEC, own, None, x, y) - error  # the Gaussian head's penalty
            total += error + spread / 12
        return total

    @jax.jit
    @jax.value_and_grad
    def rehearsed(params):
        return rehearsal.loss(architecture, SPEC, params, kept, jnp.array(2), key)

    ours, theirs = (jax.tree.leaves(f(params)) for f in (rehearsed, one_by_one))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_nothing_is_rehearsed_before_anything_is_kept():
    learner = Coreset(network=Network(hidden=(6, 5)), training=Training(batch_size=12))
    architecture, _, rehearsal = learner.parts
    assert rehearsal is not None
    params = learner.init(SPEC, 3, key=jax.random.key(0)).params
    empty = Kept(jnp.ones((3, 4, 5)), jnp.ones((3, 4, 3)), jnp.array([0, 0, 0]))
    where = (empty, jnp.array(0), jax.random.key(1))
    loss = jax.jit(lambda p: rehearsal.loss(architecture, SPEC, p, *where))
    assert loss(params) == 0.0
