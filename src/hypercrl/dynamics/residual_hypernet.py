"""A base that all tasks share, and for each task a difference from a chunked hypernetwork.

    θ(e) = θ₀ + H_Θ(e)

The base costs one target network, which the chunked hypernetwork alone is too weak to generate;
H has only to say how a task differs. A new embedding starts near θ₀, what is known.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.checks import above
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.hypernet import NUM_PROBE_EMBEDDINGS, Hypernet
from hypercrl.registry import hypernets


@hypernets.register("residual")
@dataclass(frozen=True)
class ResidualHypernet(Hypernet):
    """The target's weights once more than the chunked hypernetwork with the same settings."""

    hidden: tuple[int, ...] = (20, 20)
    """Hidden layers' sizes of the hypernetwork that generates differences."""
    chunk_size: int = 2_000
    """Weights generated at a time."""
    chunk_embedding_dim: int = 20
    """Length of a chunk's embedding."""
    first_difference: float = 0.1
    """Spread of the first differences, relative to the base's."""

    def __post_init__(self):
        super().__post_init__()
        above(self, 0, "first_difference")
        _ = self._differences  # which validates the fields that it shares

    @property
    def _differences(self) -> ChunkedHypernet:
        return ChunkedHypernet(
            self.hidden,
            self.activation,
            self.embedding_dim,
            self.chunk_size,
            self.chunk_embedding_dim,
        )

    def init(self, layout, *, key):
        base_key, difference_key, probe_key = jax.random.split(key, 3)
        base = layout.init(key=base_key)
        params = self._differences.init(layout, key=difference_key)
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.embedding_dim))
        first = jnp.asarray(self._differences.generate(layout, params, embeddings))
        scale = self.first_difference * jnp.std(base) / jnp.std(first)
        params["output"]["matrix"] *= scale
        return {"base": base, "difference": params}

    def generate(self, layout, params, embeddings):
        difference = jnp.asarray(
            self._differences.generate(layout, params["difference"], embeddings)
        )
        return jnp.broadcast_to(params["base"], difference.shape) + difference

    def pull_back(self, layout, params, embeddings):
        return jax.vjp(functools.partial(self.generate, layout), params, embeddings)
