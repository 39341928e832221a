"""The chunked hypernetwork (von Oswald et al. 2020): a small MLP called once a chunk of weights.

Each chunk has a learned embedding of its own, which enters beside the task's. The network is
shared by all chunks, so it can be smaller than the target that it generates.
"""

import functools
import math
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.checks import at_least, one_of
from hypercrl.dynamics.hypernet import (
    INITIALISATIONS,
    NUM_PROBE_EMBEDDINGS,
    Hypernet,
    apply_hidden,
    init_hidden,
)
from hypercrl.dynamics.mlp import Layout, xavier_uniform
from hypercrl.registry import hypernets


@hypernets.register("chunked")
@dataclass(frozen=True)
class ChunkedHypernet(Hypernet):
    """Generates `chunk_size` weights at a time; the last chunk's surplus is cut off."""

    chunk_size: int = 2_000
    """Weights generated at a time."""
    chunk_embedding_dim: int = 20
    """Length of a chunk's embedding."""
    initialisation: Literal["xavier", "hyperfan"] = "xavier"
    """Of its weights: the paper's, or that of Chang et al. (2020)."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 1, "chunk_size", "chunk_embedding_dim")
        one_of(self, INITIALISATIONS, "initialisation")

    def init(self, layout, *, key):
        chunk_key, hidden_key, output_key, probe_key = jax.random.split(key, 4)
        shape = (self._num_chunks(layout), self.chunk_embedding_dim)
        chunks = jax.random.normal(chunk_key, shape)
        sizes = (self.embedding_dim + self.chunk_embedding_dim, *self.hidden)
        hidden = init_hidden(sizes, key=hidden_key)
        if self.initialisation == "hyperfan":
            matrix = self._hyperfan(layout, chunks, hidden, output_key, probe_key)
        else:
            matrix = xavier_uniform(output_key, self.hidden[-1], self.chunk_size)
        return {
            "chunks": chunks,
            "hidden": hidden,
            "output": {"matrix": matrix, "bias": jnp.zeros(self.chunk_size)},
        }

    def generate(self, layout, params, embeddings):
        hidden = self._apply_hidden(params["hidden"], params["chunks"], embeddings)
        hidden = hidden.reshape(-1, hidden.shape[-1])
        # The bias goes through the product: added to it, it would cost a pass over all weights.
        hidden = jnp.concatenate([hidden, jnp.ones((len(hidden), 1))], axis=1)
        output = jnp.concatenate([params["output"]["matrix"], params["output"]["bias"][None]])
        chunks = (hidden @ output).reshape(len(embeddings), -1)
        return _trim(chunks, layout.num_weights)

    def pull_back(self, layout, params, embeddings):
        return jax.vjp(functools.partial(self.generate, layout), params, embeddings)

    def _num_chunks(self, layout: Layout) -> int:
        return math.ceil(layout.num_weights / self.chunk_size)

    def _apply_hidden(self, layers, chunks, embeddings):
        """Hidden activations [T, num_chunks, hidden] of every task and chunk."""
        shape = (len(embeddings), len(chunks))
        tasks = jnp.broadcast_to(embeddings[:, None], (*shape, embeddings.shape[-1]))
        parts = jnp.broadcast_to(chunks[None], (*shape, chunks.shape[-1]))
        inputs = jnp.concatenate([tasks, parts], axis=-1)
        return apply_hidden(self.activation, layers, inputs)

    def _hyperfan(self, layout: Layout, chunks, hidden, key, probe_key):
        """As for the full one, with the wanted variance averaged over the chunks of a column."""
        surplus = len(chunks) * self.chunk_size - layout.num_weights
        wanted = np.pad(layout.he_variances(), (0, surplus))
        wanted = wanted.reshape(len(chunks), self.chunk_size).mean(0)
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.embedding_dim))
        energy = (self._apply_hidden(hidden, chunks, embeddings) ** 2).sum(-1).mean()
        std = jnp.asarray(np.sqrt(wanted), jnp.float32) / jnp.sqrt(energy)
        return jax.random.normal(key, (self.hidden[-1], self.chunk_size)) * std[None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _trim(rows: Float[Array, "T V"], length: int) -> Float[Array, "T W"]:
    """The first `length` columns; the derived gradient pads, which costs a third of an update."""
    return rows[:, :length]


def _trim_forward(rows, length):
    return _trim(rows, length), jnp.zeros((len(rows), rows.shape[1] - length))


def _trim_backward(length, surplus, gradient):
    surplus = jax.lax.optimization_barrier(surplus)  # or it becomes a padding again
    return (jnp.concatenate([gradient, surplus], axis=1),)


_trim.defvjp(_trim_forward, _trim_backward)
