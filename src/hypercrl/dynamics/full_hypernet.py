"""The paper's hypernetwork: one MLP whose last layer is as wide as the target has weights."""

import functools
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.checks import one_of
from hypercrl.dynamics.hypernet import (
    INITIALISATIONS,
    NUM_PROBE_EMBEDDINGS,
    Hypernet,
    apply_hidden,
    init_hidden,
)
from hypercrl.dynamics.mlp import Layout, xavier_uniform
from hypercrl.dynamics.outer_sum import OuterSum, split_columns
from hypercrl.registry import hypernets

# The output matrix is kept in blocks of so many columns. An update takes them one after the other,
# so that the processor's cache holds a block from its gradient to the weights it generates next.
BLOCK = 11_264

VECTOR = 8  # 32-bit numbers that the processor takes at once


@hypernets.register("full")
@dataclass(frozen=True)
class FullHypernet(Hypernet):
    """About `hidden[-1] + 1` times the target's size."""

    initialisation: Literal["xavier", "hyperfan"] = "xavier"
    """Of its weights: the paper's, or that of Chang et al. (2020)."""

    def __post_init__(self):
        super().__post_init__()
        one_of(self, INITIALISATIONS, "initialisation")

    def init(self, layout, *, key):
        hidden_key, output_key, probe_key = jax.random.split(key, 3)
        hidden = init_hidden((self.embedding_dim, *self.hidden), key=hidden_key)
        if self.initialisation == "hyperfan":
            matrix = self._hyperfan(layout, hidden, output_key, probe_key)
        else:
            matrix = self._xavier(layout, output_key)
        blocks = split_columns(matrix, _widths(layout))
        return {
            "hidden": hidden,
            "output": {"matrix": blocks, "bias": jnp.zeros(layout.num_weights)},
        }

    def generate(self, layout, params, embeddings):
        hidden = apply_hidden(self.activation, params["hidden"], embeddings)
        return _add_row(_times_blocks(params["output"]["matrix"], hidden), params["output"]["bias"])

    def pull_back(self, layout, params, embeddings):
        """As derived, but with the large gradient factored."""
        activate = functools.partial(apply_hidden, self.activation)
        hidden, to_layers = jax.vjp(activate, params["hidden"], embeddings)
        times = functools.partial(_times_blocks, params["output"]["matrix"])
        product, to_hidden = jax.vjp(times, hidden)

        def pull(gradient):
            layers, embedding_gradient = to_layers(*to_hidden(gradient))
            matrix = OuterSum(hidden, gradient, _widths(layout))
            bias = functools.reduce(jnp.add, gradient)  # row by row: XLA is slower at sum(0)
            output = {"matrix": matrix, "bias": bias}
            return {"hidden": layers, "output": output}, embedding_gradient

        return _add_row(product, params["output"]["bias"]), pull

    def _xavier(self, layout: Layout, key):
        """Drawn per target tensor: flat, the long vector would make every weight tiny."""
        sizes = layout.tensor_sizes()
        keys = jax.random.split(key, len(sizes))
        fan_in = self.hidden[-1]
        columns = [xavier_uniform(k, fan_in, n) for k, n in zip(keys, sizes, strict=True)]
        return jnp.concatenate(columns, axis=1)

    def _hyperfan(self, layout: Layout, hidden, key, probe_key):
        """Var(Θ) = Var(θ) / (n E[h²]), so that generated weights start as He initialisation."""
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.embedding_dim))
        activations = apply_hidden(self.activation, hidden, embeddings)
        energy = (activations**2).sum(-1).mean()
        std = jnp.asarray(np.sqrt(layout.he_variances()), jnp.float32) / jnp.sqrt(energy)
        return jax.random.normal(key, (self.hidden[-1], layout.num_weights)) * std[None]


def _widths(layout: Layout) -> tuple[int, ...]:
    """Columns of each block of the output matrix."""
    full, rest = divmod(layout.num_weights, BLOCK)
    return (BLOCK,) * full + ((rest,) if rest else ())


def _add_row(rows, bias):
    return rows + jnp.broadcast_to(bias, rows.shape)


def _times_blocks(blocks, rows):
    return jnp.concatenate([_wide_product(rows, block) for block in blocks], axis=1)


@jax.custom_vjp
def _wide_product(rows: Float[Array, "N n"], matrix: Float[Array, "n m"]) -> Float[Array, "N m"]:
    """`rows @ matrix` for few rows and very many columns.

    Its gradient in `rows` contracts over the long axis. Asking for it as `matrix @ gᵀ` lets XLA
    stream the matrix as it lies in memory; the usual order is several times slower, and the
    barrier keeps the compiler from going back to it. A number of rows that fills the processor's
    vectors is quicker than a smaller one, unless it is one, which is a product with a vector.
    """
    return rows @ matrix


def _wide_forward(rows, matrix):
    return rows @ matrix, (rows, matrix)


def _wide_backward(saved, gradient):
    rows, matrix = saved
    count = len(gradient)
    if count == 1:
        return (matrix @ gradient[0])[None], rows.T @ gradient
    padded = jnp.pad(gradient, ((0, -count % VECTOR), (0, 0)))
    by_column = jax.lax.optimization_barrier(matrix @ padded.T)
    return by_column.T[:count], rows.T @ gradient


_wide_product.defvjp(_wide_forward, _wide_backward)
