"""Hypernetworks H_Θ(e) = θ: from a task embedding to the target network's weights.

`Hypernet` is the configuration; `full_hypernet` and `chunked_hypernet` are the two ways to
generate a long vector. Both are pure functions of explicit parameters and generate the weights
of many tasks in one call, so that the regulariser reads Θ from memory only once.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from hypercrl.dynamics.mlp import ACTIVATIONS, Layout, xavier_uniform
from hypercrl.errors import UserError
from hypercrl.types import Settings

INITIALISATIONS = ("xavier", "hyperfan")

# Hidden activations for hyperfan are measured on this many standard-normal embeddings.
NUM_PROBE_EMBEDDINGS = 256


@dataclass(frozen=True)
class Hypernet:
    """The hypernetwork's configuration."""

    hidden: tuple[int, ...] = (50, 50)
    """Hidden layers' sizes."""
    activation: str = "elu"
    """`elu`, `relu`, `tanh` or `swish`."""
    embedding_dim: int = 10
    """Length of a task embedding."""
    chunk_size: int = 0
    """Weights generated at a time; 0 generates all of them at once (the paper's)."""
    chunk_embedding_dim: int = 20
    """Length of a chunk's embedding; unused where chunk_size is 0."""
    initialisation: str = "xavier"
    """`xavier` (the paper's) or `hyperfan` (Chang et al. 2020)."""

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise UserError(
                f"The hypernetwork's activation '{self.activation}' is unknown; choose one of: "
                f"{', '.join(ACTIVATIONS)}."
            )
        if self.initialisation not in INITIALISATIONS:
            raise UserError(
                f"The initialisation '{self.initialisation}' is unknown; choose one of: "
                f"{', '.join(INITIALISATIONS)}."
            )
        sizes = (*self.hidden, self.embedding_dim, self.chunk_embedding_dim)
        if min(sizes) < 1 or self.chunk_size < 0:
            raise UserError(
                "The hypernetwork's layers and embeddings need at least 1 number, and its "
                f"chunk_size cannot be negative; it was given {sizes} and {self.chunk_size}."
            )

    @classmethod
    def configure(cls, settings: Settings) -> "Hypernet":
        return cls(
            hidden=settings.hypernet_hidden,
            activation=settings.hypernet_activation,
            chunk_size=settings.chunk_size,
            chunk_embedding_dim=settings.chunk_embedding_dim,
        )

    def generator(self, layout: Layout) -> "Generator":
        """The hypernetwork for a target of this layout."""
        from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
        from hypercrl.dynamics.full_hypernet import FullHypernet

        return ChunkedHypernet(self, layout) if self.chunk_size else FullHypernet(self, layout)


class Generator(abc.ABC):
    """A hypernetwork for one target layout; stateless."""

    generates_early: ClassVar[bool] = False
    """Generate the next update's weights at the end of this one, while Θ is in the cache."""

    @abc.abstractmethod
    def init(self, *, key: PRNGKeyArray) -> Any:
        """Parameters Θ."""

    @abc.abstractmethod
    def generate(self, params: Any, embeddings: Float[Array, "T E"]) -> Float[Array, "T W"]:
        """The weights of every task, one row each."""

    def pull_back(self, params: Any, embeddings: Float[Array, "T E"]) -> tuple[Any, Any]:
        """The weights, and what turns a gradient in them into those in Θ and the embeddings."""
        return jax.vjp(self.generate, params, embeddings)


def init_hidden(sizes: tuple[int, ...], *, key: PRNGKeyArray) -> list[dict[str, Array]]:
    """Xavier-uniform hidden layers with zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"matrix": xavier_uniform(k, n, m), "bias": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def apply_hidden(activation: str, layers, x: Float[Array, "*N n"]) -> Float[Array, "*N m"]:
    for layer in layers:
        x = ACTIVATIONS[activation](x @ layer["matrix"] + layer["bias"])
    return x
