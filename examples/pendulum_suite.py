"""A suite of one's own: Gymnasium's pendulum under three gravities, with Gymnasium's reward.

Videos of it need `pip install "gymnasium[classic-control]"`.
"""

import jax.numpy as jnp

import hypercrl


def reward(state, action, next_state):
    """Least angle, speed and torque, from the state (cos θ, sin θ, θ̇)."""
    angle = jnp.arctan2(state[1], state[0])
    return -(angle**2 + 0.1 * state[2] ** 2 + 0.001 * jnp.sum(action**2))


suite = hypercrl.suite_from_envs(
    "pendulum",
    [("Pendulum-v1", {"g": gravity}) for gravity in (10.0, 5.0, 15.0)],
    reward,
)
hypercrl.register_suite(suite)
