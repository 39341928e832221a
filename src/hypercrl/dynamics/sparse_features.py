"""Sparse random features and the exact least squares on top of them (Liu et al. 2024, 2025).

    u    = sigmoid(P x)                        random projections, taken in pairs
    φ_g  = hat(u_2g) ⊗ hat(u_2g+1)             a grid over each pair, bilinear between its nodes
    W    = argmin Σ ‖φ(x_n)ᵀ W − y_n‖² + λ ‖W − W_0‖²

Of a grid's nodes only the four around a point are non-zero, and their values add up to one, so
learning in one place leaves the others alone. W follows from a triangular factor of

    [√λ I  √λ W_0]
    [ φ(x)    y  ]

to which new rows are added by a QR decomposition: the recursive form of the batch solution.
The factor is square, with a row for each feature and each output. Its condition is the square
root of that of the normal equations, which 32-bit numbers could not carry.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

# sigmoid(1.702 z) is the normal distribution's cumulative function to within 0.01, so that
# projections of normalised inputs fill their grids evenly.
LOGISTIC_GAIN = 1.702


@dataclass(frozen=True)
class SparseFeatures:
    """`num_grids` grids of (`num_bins` + 1)² nodes."""

    num_grids: int
    num_bins: int

    @property
    def size(self) -> int:
        return self.num_grids * (self.num_bins + 1) ** 2

    def init(self, num_inputs: int, *, key: PRNGKeyArray) -> Float[Array, "inputs projections"]:
        """P, with unit-variance projections of unit-variance inputs; it is never trained."""
        return jax.random.normal(key, (num_inputs, 2 * self.num_grids)) / num_inputs**0.5

    def apply(
        self, projection: Float[Array, "inputs projections"], x: Float[Array, "*N inputs"]
    ) -> Float[Array, "*N size"]:
        """φ(x), dense: the zeros cost less than looking up where they are."""
        place = self.num_bins * jax.nn.sigmoid(LOGISTIC_GAIN * (x @ projection))
        nodes = jnp.arange(self.num_bins + 1)
        distance = jnp.abs(jnp.expand_dims(place, -1) - jnp.expand_dims(nodes, range(place.ndim)))
        hats = jnp.maximum(0.0, 1.0 - distance)
        hats = hats.reshape(*x.shape[:-1], self.num_grids, 2, self.num_bins + 1)
        grids = hats[..., 0, :, None] * hats[..., 1, None, :]
        return grids.reshape(*x.shape[:-1], self.size)


class LinearPredictor(eqx.Module):
    """The output that is linear in the features, with its weights."""

    weights: Float[Array, "size outputs"]
    projection: Float[Array, "inputs projections"]
    features: SparseFeatures = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
        return self.features.apply(self.projection, inputs) @ self.weights


def init_factor(centre: Float[Array, "size outputs"], ridge: float) -> Float[Array, "n n"]:
    """The factor before any data: W is pulled to `centre`."""
    size, num_outputs = centre.shape
    top = jnp.sqrt(ridge) * jnp.concatenate([jnp.eye(size), centre], axis=1)
    return jnp.pad(top, ((0, num_outputs), (0, 0)))


def absorb(
    factor: Float[Array, "n n"],
    features: Float[Array, "B size"],
    targets: Float[Array, "B outputs"],
) -> Float[Array, "n n"]:
    """The factor after more rows; rows of zeros change nothing."""
    rows = jnp.concatenate([features, targets], axis=1)
    return jnp.linalg.qr(jnp.concatenate([factor, rows]), mode="r")


def solve(
    factor: Float[Array, "n n"], num_outputs: int
) -> tuple[Float[Array, "size outputs"], Float[Array, ""]]:
    """W, and the minimum that it attains: what the factor could not explain."""
    triangle, right = factor[:-num_outputs, :-num_outputs], factor[:-num_outputs, -num_outputs:]
    weights = jax.scipy.linalg.solve_triangular(triangle, right)
    return weights, jnp.sum(factor[-num_outputs:, -num_outputs:] ** 2)
