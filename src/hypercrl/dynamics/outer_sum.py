"""A gradient that is small where its matrix is large: kept as the rows that it is a product of."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Blocks = tuple[Float[Array, "_n _columns"], ...]


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
