"""A base that all tasks share, and for each task a mixture of a few common directions.

    θ(e) = θ₀ + Σ_k z_k(e) B_k

with z from a small MLP on the embedding. It learns as well as networks of their own do and keeps
well, and it is large: 1 + K times the target. A new embedding starts near θ₀, what is known; an
update costs K + 1 passes over the target's weights.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.checks import above, at_least
from hypercrl.dynamics.hypernet import (
    NUM_PROBE_EMBEDDINGS,
    Hypernet,
    apply_hidden,
    init_hidden,
)
from hypercrl.dynamics.mlp import affine, xavier_uniform
from hypercrl.registry import hypernets


@hypernets.register("basis")
@dataclass(frozen=True)
class BasisHypernet(Hypernet):
    """1 + `num_vectors` times the target's weights, and a few."""

    hidden: tuple[int, ...] = (32,)
    """Hidden layers' sizes, between the embedding and the mixture."""
    activation: str = "tanh"
    """`elu`, `relu`, `tanh` or `swish`."""
    num_vectors: int = 4
    """Directions that are mixed."""
    first_difference: float = 0.5
    """Spread of what the mixture first adds to the base, relative to the base's."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 1, "num_vectors")
        above(self, 0, "first_difference")

    def init(self, layout, *, key):
        hidden_key, output_key, base_key, probe_key, *keys = jax.random.split(
            key, 4 + self.num_vectors
        )
        hidden = init_hidden((self.embedding_dim, *self.hidden), key=hidden_key)
        matrix = xavier_uniform(output_key, self.hidden[-1], self.num_vectors)
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.embedding_dim))
        mixtures = apply_hidden(self.activation, hidden, embeddings) @ matrix
        scale = self.first_difference / jnp.sqrt((mixtures**2).sum(1).mean())
        return {
            "hidden": hidden,
            "output": {"matrix": matrix, "bias": jnp.zeros(self.num_vectors)},
            "base": layout.init(key=base_key),
            "vectors": scale * jnp.stack([layout.init(key=one) for one in keys]),
        }

    def generate(self, layout, params, embeddings):
        hidden = apply_hidden(self.activation, params["hidden"], embeddings)
        mixtures = affine(hidden, params["output"]["matrix"], params["output"]["bias"])
        difference = mixtures @ params["vectors"]
        return jnp.broadcast_to(params["base"], difference.shape) + difference

    def pull_back(self, layout, params, embeddings):
        return jax.vjp(functools.partial(self.generate, layout), params, embeddings)
