"""Regions of inputs: where they are found, and that none of them is an input itself."""

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.learning.regions import FEWEST, find_regions


def clusters(key, centres, size, spread=0.1):
    noise = jax.random.normal(key, (len(centres), size, len(centres[0])))
    return (jnp.asarray(centres)[:, None] + spread * noise).reshape(-1, len(centres[0]))


def test_regions_are_found_where_the_inputs_are():
    truth = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    inputs = clusters(jax.random.key(0), truth, 200)
    centres, covariance = find_regions(inputs, jnp.ones(600, bool), 12, key=jax.random.key(1))
    gaps = np.linalg.norm(np.asarray(centres)[:, None] - truth, axis=-1)
    assert gaps.min(0).max() < 0.2  # each cluster has a region
    assert np.diag(covariance).max() < 0.02  # and nothing of the distance between them is left


def test_one_region_is_the_gaussian_of_all_inputs():
    inputs = jax.random.normal(jax.random.key(0), (500, 3)) @ jnp.array(
        [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 2.0]]
    )
    centres, covariance = find_regions(inputs, jnp.ones(500, bool), 1, key=jax.random.key(1))
    np.testing.assert_allclose(centres[0], inputs.mean(0), atol=1e-5)
    np.testing.assert_allclose(covariance, np.cov(inputs, rowvar=False, bias=True), atol=1e-4)


def test_what_is_seldom_is_drawn_as_often_as_the_rest():
    """A hundredth of the inputs far away: a region of its own, though one Gaussian ignores it."""
    common = clusters(jax.random.key(0), [[0.0, 0.0]], 2_000, spread=1.0)
    rare = clusters(jax.random.key(1), [[6.0, 6.0]], 20)
    inputs = jnp.concatenate([common, rare])
    centres, _ = find_regions(inputs, jnp.ones(len(inputs), bool), 32, key=jax.random.key(2))
    assert np.linalg.norm(np.asarray(centres) - [6.0, 6.0], axis=-1).min() < 0.5


def test_a_region_of_few_inputs_is_given_up_for_the_mean():
    common = clusters(jax.random.key(0), [[0.0, 0.0]], 500)
    odd = jnp.full((FEWEST - 1, 2), 9.0)
    inputs = jnp.concatenate([common, odd])
    centres, covariance = find_regions(
        inputs, jnp.ones(len(inputs), bool), 100, key=jax.random.key(3)
    )
    assert float(jnp.abs(centres).max()) < 1.0
    assert float(covariance[0, 0]) > 1.0  # they still count in the spread


def test_what_is_not_used_counts_nothing():
    inputs = clusters(jax.random.key(0), [[1.0, 2.0]], 300)
    padded = jnp.concatenate([inputs, jnp.full((300, 2), 1e6)])
    used = jnp.arange(600) < 300
    for count in (1, 8):
        centres, covariance = find_regions(padded, used, count, key=jax.random.key(1))
        assert float(jnp.abs(centres - jnp.array([[1.0, 2.0]])).max()) < 0.5
        assert float(jnp.abs(covariance).max()) < 0.02
