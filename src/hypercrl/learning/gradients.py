"""Gradients between the loss and the optimiser: summed, clipped, and small where they can be."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Blocks = tuple[Float[Array, "n columns"], ...]


@dataclass(frozen=True)
class OuterSum:
    """The gradient Σ_r left_r ⊗ right_r of a matrix that a few rows went through.

    Such a matrix in a hypernetwork is far larger than the rows. The norm of its gradient and any
    scaling follow from the rows alone; the entries are written out once, for the optimiser, in
    the blocks of columns that the matrix is kept in.
    """

    left: Float[Array, "R n"]
    right: Float[Array, "R m"]
    widths: tuple[int, ...]

    def dense(self) -> Blocks:
        # The barrier keeps the transposition apart: with it inside, the product is slower.
        left = jax.lax.optimization_barrier(self.left.T)
        return tuple(left @ columns for columns in split_columns(self.right, self.widths))

    def squared_norm(self) -> Float[Array, ""]:
        """Σ_rs (left_r · left_s)(right_r · right_s)."""
        gram = jnp.stack([self.right @ row for row in self.right])
        return jnp.vdot(self.left @ self.left.T, gram)

    def scale(self, factor: Float[Array, ""]) -> "OuterSum":
        return replace(self, left=self.left * factor)

    def join(self, other: "OuterSum") -> "OuterSum":
        """The sum of the two."""
        left = jnp.concatenate([self.left, other.left])
        return OuterSum(left, jnp.concatenate([self.right, other.right]), self.widths)


def split_columns(matrix: Float[Array, "n m"], widths: tuple[int, ...]) -> Blocks:
    """The matrix as blocks of so many columns each."""
    return tuple(jnp.split(matrix, np.cumsum(widths)[:-1], axis=1))


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
