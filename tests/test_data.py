"""Buffer, hold-out split and normaliser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.data.buffer import (
    STRETCH,
    Buffer,
    held_out,
    is_training,
    num_training,
    sample_rows,
    training_row,
)
from hypercrl.data.memory import TaskMemory
from hypercrl.data.normalizer import Normalizer, fit_normalizer, raw_inputs
from hypercrl.errors import UserError


@pytest.mark.parametrize("count", [1, 59, 60, 61, 80, 81, 160, 1_001])
def test_every_row_is_either_trained_on_or_held_out(count):
    trained = np.asarray(training_row(jnp.arange(int(num_training(jnp.array(count))))))
    assert sorted([*trained, *held_out(count)]) == list(range(count))
    marked = np.flatnonzero(is_training(jnp.arange(count)))
    np.testing.assert_array_equal(marked, trained)


def test_a_quarter_is_held_out_in_stretches_of_twenty_neighbours():
    """A lone row between two that were trained on would almost be a copy of them."""
    assert held_out(80).tolist() == list(range(60, 80))
    rows = held_out(8_000)
    assert len(rows) == 2_000
    for stretch in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        assert len(stretch) == STRETCH == 20


def test_batches_are_uniform_over_the_training_rows():
    rows = np.asarray(sample_rows(jax.random.key(0), jnp.array(100), 200_000))
    values, counts = np.unique(rows, return_counts=True)
    assert set(values) == set(range(100)) - set(held_out(100))
    assert counts.std() / counts.mean() < 0.05


def test_buffer_is_empty_after_a_switch():
    spec = make_spec()
    buffer = Buffer(spec, capacity=4)
    for i in range(4):
        buffer.add(np.full(3, i), np.full(2, i), np.full(3, i + 1))
    assert int(buffer.transitions().count) == 4
    with pytest.raises(UserError, match="full"):
        buffer.add(np.zeros(3), np.zeros(2), np.zeros(3))
    buffer.clear()
    data = buffer.transitions()
    assert int(data.count) == 0
    assert all(not np.any(array) for array in data)


def test_normaliser_ignores_rows_that_are_not_data():
    spec = make_spec()
    data = linear_data(spec, seed=0, count=50, capacity=200)
    inputs = np.asarray(raw_inputs(spec, data.states, data.actions))[:50]
    normalizer = fit_normalizer(spec, data, scale_targets=True)
    np.testing.assert_allclose(normalizer.input_mean, inputs.mean(0), atol=1e-5)
    np.testing.assert_allclose(normalizer.input_std, inputs.std(0), rtol=1e-4)
    change = np.asarray(data.next_states - data.states)[:50]
    np.testing.assert_allclose(normalizer.output_scale, change.std(0), rtol=1e-4)


def test_held_out_rows_reach_neither_normaliser_nor_memory():
    spec = make_spec()
    data = linear_data(spec, seed=0, count=400, capacity=400)
    shifted = data._replace(states=data.states.at[held_out(400)].add(100.0))
    one, other = (fit_normalizer(spec, d, scale_targets=True) for d in (data, shifted))
    jax.tree.map(np.testing.assert_array_equal, one, other)

    memory = TaskMemory(spec, 1, 400, share=1.0)
    rows = {n: np.asarray(getattr(shifted, n)) for n in ("states", "actions", "next_states")}
    memory.keep(0, rows, np.random.default_rng(0))
    view = memory.view()
    assert view is not None
    assert int(view.counts[0]) == 300
    assert np.abs(view.states).max() < 50


def test_a_constant_feature_is_left_alone():
    spec = make_spec()
    data = linear_data(spec, seed=0)
    data = data._replace(states=data.states.at[:, 1].set(3.0))
    assert float(fit_normalizer(spec, data, scale_targets=False).input_std[1]) == 1.0


def test_replacing_one_task_leaves_the_others():
    spec = make_spec()
    table = Normalizer.identity(spec, 3)
    one = fit_normalizer(spec, linear_data(spec, seed=0), scale_targets=True)
    table = table.replace(1, one)
    np.testing.assert_array_equal(table.input_std[0], 1.0)
    np.testing.assert_array_equal(table.input_std[2], 1.0)
    np.testing.assert_array_equal(table.select(1).input_std, one.input_std)
