"""Gradients between the loss and the optimiser: summed, clipped, and small where they can be."""

from typing import Any

import jax
import jax.numpy as jnp

from hypercrl.dynamics.outer_sum import OuterSum


def clip_by_norm(gradients: Any, max_norm: float) -> Any:
    """Scale a pytree of gradients down to a global norm of at most `max_norm`."""
    leaves, structure = jax.tree.flatten(gradients)
    squared = sum(g.squared_norm() if _is_factored(g) else jnp.vdot(g, g) for g in leaves)
    factor = jnp.minimum(1.0, max_norm / jnp.sqrt(squared + 1e-12))
    scaled = [g.scale(factor) if _is_factored(g) else g * factor for g in leaves]
    return jax.tree.unflatten(structure, scaled)


def densify(gradients: Any) -> Any:
    """The same gradients, every one an array of its parameter's shape."""
    dense = lambda g: g.dense() if _is_factored(g) else g  # noqa: E731
    return jax.tree.map(dense, gradients)


def add_gradients(one: Any, other: Any) -> Any:
    """Their sum, still factored where both are."""
    add = lambda x, y: x.join(y) if _is_factored(x) else x + y  # noqa: E731
    return jax.tree.map(add, one, other)


def _is_factored(gradient: Any) -> bool:
    return isinstance(gradient, OuterSum)
