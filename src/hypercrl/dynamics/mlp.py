"""The target network: a multi-layer perceptron as a function of one flat weight vector.

A hypernetwork generates the vector; the baselines train it directly. The order is layer by
layer, each weight matrix [inputs, outputs] in row-major order followed by its bias.
"""

from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

ACTIVATIONS = {"relu": jax.nn.relu, "elu": jax.nn.elu, "tanh": jnp.tanh, "swish": jax.nn.swish}

Layers = tuple[tuple[Float[Array, "_inputs _outputs"], Float[Array, "_outputs"]], ...]


@dataclass(frozen=True)
class Layout:
    """The shape of an MLP: inputs, hidden layers, outputs."""

    sizes: tuple[int, ...]

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        return tuple(pairwise(self.sizes))

    @property
    def num_weights(self) -> int:
        return sum(n * m + m for n, m in self.shapes)

    @property
    def num_head_weights(self) -> int:
        """Weights of the output layer; they are the last ones of the vector."""
        n, m = self.shapes[-1]
        return n * m + m

    def unflatten(self, weights: Float[Array, "num_weights"]) -> Layers:
        if not self.shapes:
            return ()  # the trunk of a network that is linear
        tensors = jnp.split(weights, np.cumsum(self.tensor_sizes())[:-1])
        matrices, biases = tensors[::2], tensors[1::2]
        return tuple(
            (matrix.reshape(shape), bias)
            for matrix, bias, shape in zip(matrices, biases, self.shapes, strict=True)
        )

    def init(self, *, key: PRNGKeyArray) -> Float[Array, "num_weights"]:
        """Xavier-uniform weights and zero biases, for networks that are trained directly."""
        parts = []
        for (n, m), k in zip(self.shapes, jax.random.split(key, len(self.shapes)), strict=True):
            parts += [xavier_uniform(k, n, m).reshape(-1), jnp.zeros(m)]
        return jnp.concatenate(parts)

    def tensor_sizes(self) -> tuple[int, ...]:
        """Lengths of the tensors that make up the vector, in order."""
        return tuple(size for n, m in self.shapes for size in (n * m, m))

    def he_variances(self) -> np.ndarray:
        """The variance each weight should start with: 2 / fan-in for ReLU, 0 for biases."""
        parts = []
        for i, (n, m) in enumerate(self.shapes):
            gain = 1.0 if i == len(self.shapes) - 1 else 2.0
            parts += [np.full(n * m, gain / n), np.zeros(m)]
        return np.concatenate(parts)


def apply_mlp(
    layers: Layers, x: Float[Array, "*N inputs"], activation: str = "relu"
) -> Float[Array, "*N outputs"]:
    """The activation between layers, none after the last."""
    for matrix, bias in layers[:-1]:
        x = ACTIVATIONS[activation](affine(x, matrix, bias))
    return affine(x, *layers[-1])


def affine(
    x: Float[Array, "*N inputs"],
    matrix: Float[Array, "inputs outputs"],
    bias: Float[Array, "outputs"],
) -> Float[Array, "*N outputs"]:
    """One layer without its activation."""
    product = x @ matrix
    return product + jnp.broadcast_to(bias, product.shape)


def xavier_uniform(key: PRNGKeyArray, fan_in: int, fan_out: int) -> Float[Array, "n m"]:
    """Glorot and Bengio (2010)."""
    limit = (6.0 / (fan_in + fan_out)) ** 0.5
    return jax.random.uniform(key, (fan_in, fan_out), minval=-limit, maxval=limit)
