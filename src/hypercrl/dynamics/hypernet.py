"""Hypernetworks H_Θ(e) = θ: from a task embedding to the target network's weights.

A variant is one file, `full_hypernet` or `chunked_hypernet`: a frozen object of settings whose
methods are pure functions of the target's layout and of explicit parameters Θ. The weights of
many tasks are generated in one call, so that the regulariser reads Θ from memory only once.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from hypercrl.checks import at_least, not_empty, one_of
from hypercrl.dynamics.mlp import ACTIVATIONS, Layout, affine, xavier_uniform

INITIALISATIONS = ("xavier", "hyperfan")

# Hidden activations for hyperfan are measured on this many standard-normal embeddings.
NUM_PROBE_EMBEDDINGS = 256

PullBack = Callable[[Float[Array, "T W"]], tuple[Any, Float[Array, "T E"]]]


@dataclass(frozen=True)
class Hypernet(abc.ABC):
    """What all hypernetworks have: an MLP that starts from a task's embedding."""

    hidden: tuple[int, ...] = (50, 50)
    """Hidden layers' sizes."""
    activation: str = "elu"
    """`elu`, `relu`, `tanh` or `swish`."""
    embedding_dim: int = 10
    """Length of a task embedding."""

    def __post_init__(self):
        not_empty(self, "hidden")
        at_least(self, 1, "hidden", "embedding_dim")
        one_of(self, ACTIVATIONS, "activation")

    @abc.abstractmethod
    def init(self, layout: Layout, *, key: PRNGKeyArray) -> Any:
        """Parameters Θ."""

    @abc.abstractmethod
    def generate(
        self, layout: Layout, params: Any, embeddings: Float[Array, "T E"]
    ) -> Float[Array, "T W"]:
        """The weights of every task, one row each."""

    @abc.abstractmethod
    def pull_back(
        self, layout: Layout, params: Any, embeddings: Float[Array, "T E"]
    ) -> tuple[Float[Array, "T W"], PullBack]:
        """The weights, and what turns a gradient in them into those in Θ and the embeddings."""


def init_hidden(sizes: tuple[int, ...], *, key: PRNGKeyArray) -> list[dict[str, Array]]:
    """Xavier-uniform hidden layers with zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"matrix": xavier_uniform(k, n, m), "bias": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def apply_hidden(
    activation: str, layers: list[dict[str, Array]], x: Float[Array, "*N inputs"]
) -> Float[Array, "*N hidden"]:
    for layer in layers:
        x = ACTIVATIONS[activation](affine(x, layer["matrix"], layer["bias"]))
    return x
