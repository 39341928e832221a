"""Adam (Kingma and Ba 2015), in the cheaper order of its arithmetic that their section 2 ends with.

The corrections for the moments' start at zero become factors of the step size and of ε, which are
single numbers, so each weight costs one division instead of two. Over the millions of weights of
a full hypernetwork that is felt.
"""

import jax
import jax.numpy as jnp
import optax


def adam(
    learning_rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> optax.GradientTransformation:
    """`optax.adam`, to rounding."""

    def update(updates, state, params=None):
        count = optax.safe_increment(state.count)
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, updates)
        square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, updates)
        root = jnp.sqrt(1 - b2**count)
        rate = -learning_rate * root / (1 - b1**count)
        step = jax.tree.map(lambda m, v: rate * m / (jnp.sqrt(v) + eps * root), mean, square)
        return step, optax.ScaleByAdamState(count, mean, square)

    return optax.GradientTransformation(optax.scale_by_adam().init, update)
