"""Small problems with known answers, shared by the tests."""

import jax.numpy as jnp
import numpy as np

from hypercrl.encoding import Encoding
from hypercrl.types import Spec, Transitions


def make_spec(state_dim: int = 3, action_dim: int = 2, episode_length: int = 10) -> Spec:
    return Spec(
        state_dim=state_dim,
        action_dim=action_dim,
        action_low=(-1.0,) * action_dim,
        action_high=(1.0,) * action_dim,
        episode_length=episode_length,
        encoding=Encoding.differences(state_dim),
    )


def linear_system(spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices (A, B) of s' = s + A s + B a."""
    rng = np.random.default_rng(seed)
    a = 0.2 * rng.normal(size=(spec.state_dim, spec.state_dim))
    b = 0.5 * rng.normal(size=(spec.action_dim, spec.state_dim))
    return a, b


def linear_data(spec: Spec, seed: int, count: int = 400, capacity: int = 500) -> Transitions:
    """Transitions of a linear system at random states and actions."""
    a, b = linear_system(spec, seed)
    rng = np.random.default_rng(seed + 1000)
    states = np.zeros((capacity, spec.state_dim), np.float32)
    actions = np.zeros((capacity, spec.action_dim), np.float32)
    states[:count] = rng.normal(size=(count, spec.state_dim))
    actions[:count] = rng.uniform(-1, 1, size=(count, spec.action_dim))
    next_states = np.zeros_like(states)
    next_states[:count] = states[:count] + states[:count] @ a + actions[:count] @ b
    return Transitions(
        jnp.array(states), jnp.array(actions), jnp.array(next_states), jnp.array(count, jnp.int32)
    )
