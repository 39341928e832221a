"""State encodings: `advance` undoes `target`, whatever the field."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from hypercrl.encoding import Absolute, Angle, Difference, Encoding, Quaternion

MIXED = Encoding((Absolute(1), Difference(2), Angle(2), Quaternion()))


def draw_state(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    quaternion = rng.normal(size=4)
    state = np.concatenate([rng.normal(size=5), quaternion / np.linalg.norm(quaternion)])
    return jnp.asarray(state, jnp.float32)


@pytest.mark.parametrize("seed", range(5))
def test_advance_inverts_target(seed):
    state, following = draw_state(seed), draw_state(seed + 100)
    reached = MIXED.advance(state, MIXED.target(state, following))
    np.testing.assert_allclose(MIXED.difference(reached, following), 0.0, atol=1e-5)


def test_sizes():
    assert (MIXED.state_dim, MIXED.num_features, MIXED.num_outputs) == (
        9,
        1 + 2 + 4 + 4,
        1 + 2 + 2 + 3,
    )
    assert MIXED.features(draw_state(0)).shape == (MIXED.num_features,)
    assert MIXED.target(draw_state(0), draw_state(1)).shape == (MIXED.num_outputs,)


def test_plain_differences_are_the_state_itself():
    encoding = Encoding.differences(3)
    state, following = jnp.array([1.0, 2.0, 3.0]), jnp.array([2.0, 0.0, 3.5])
    np.testing.assert_array_equal(encoding.features(state), state)
    np.testing.assert_array_equal(encoding.target(state, following), following - state)


def test_absolute_output_replaces_the_value():
    np.testing.assert_array_equal(Absolute(1).advance(jnp.array([7.0]), jnp.array([2.0])), [2.0])


def test_angle_takes_the_shorter_way_and_ignores_turns():
    angle = Angle(1)
    np.testing.assert_allclose(
        angle.target(jnp.array([3.0]), jnp.array([-3.0])), [2 * np.pi - 6.0], atol=1e-5
    )
    full_turn = jnp.array([1.0 + 2 * np.pi])
    np.testing.assert_allclose(
        angle.features(jnp.array([1.0])), angle.features(full_turn), atol=1e-5
    )


@pytest.mark.parametrize("seed", range(5))
def test_quaternion_against_scipy(seed):
    rng = np.random.default_rng(seed)
    start, turn = Rotation.random(random_state=seed), rng.normal(size=3)
    expected = (start * Rotation.from_rotvec(turn)).as_quat(scalar_first=True)
    moved = Quaternion().advance(jnp.array(start.as_quat(scalar_first=True)), jnp.array(turn))
    assert abs(float(np.dot(moved, expected))) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(jnp.linalg.norm(moved), 1.0, atol=1e-6)


def test_quaternion_sign_does_not_matter():
    quaternion = jnp.array([-0.5, 0.5, 0.5, 0.5])
    field = Quaternion()
    np.testing.assert_array_equal(field.features(quaternion), field.features(-quaternion))
    np.testing.assert_allclose(field.target(quaternion, -quaternion), 0.0, atol=1e-6)


def test_gradients_are_finite_at_rest():
    state = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    slope = jax.jacobian(MIXED.advance, argnums=1)(state, jnp.zeros(MIXED.num_outputs))
    assert bool(jnp.isfinite(slope).all())
    slope = jax.jacobian(MIXED.target, argnums=1)(state, state)
    assert bool(jnp.isfinite(slope).all())
