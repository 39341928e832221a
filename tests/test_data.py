"""Buffer, hold-out split and normaliser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hypercrl.data.buffer import Buffer, held_out, num_training, sample_rows, training_row
from hypercrl.data.normalizer import Normalizer, fit_normalizer, raw_inputs
from hypercrl.errors import UserError
from problems import linear_data, make_spec


def test_one_transition_in_four_is_never_trained_on():
    count = 101
    trained = np.asarray(training_row(jnp.arange(int(num_training(jnp.array(count))))))
    assert sorted([*trained, *held_out(count)]) == list(range(count))
    assert len(held_out(count)) == 25


def test_batches_are_uniform_over_the_training_rows():
    rows = np.asarray(sample_rows(jax.random.key(0), jnp.array(40), 60_000))
    values, counts = np.unique(rows, return_counts=True)
    assert set(values) == set(range(40)) - set(held_out(40))
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
