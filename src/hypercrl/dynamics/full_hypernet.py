"""The paper's hypernetwork: one MLP whose last layer is as wide as the target has weights."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.dynamics.gradients import OuterSum
from hypercrl.dynamics.hypernet import (
    NUM_PROBE_EMBEDDINGS,
    Generator,
    Hypernet,
    apply_hidden,
    init_hidden,
    wide_product,
)
from hypercrl.dynamics.mlp import Layout, xavier_uniform


@dataclass(frozen=True)
class FullHypernet(Generator):
    """About `hidden[-1] + 1` times the target's size."""

    config: Hypernet
    layout: Layout

    def init(self, *, key):
        hidden_key, output_key, probe_key = jax.random.split(key, 3)
        hidden = init_hidden((self.config.embedding_dim, *self.config.hidden), key=hidden_key)
        if self.config.initialisation == "hyperfan":
            matrix = self._hyperfan(hidden, output_key, probe_key)
        else:
            matrix = self._xavier(output_key)
        return {
            "hidden": hidden,
            "output": {"matrix": matrix, "bias": jnp.zeros(self.layout.num_weights)},
        }

    def generate(self, params, embeddings):
        hidden = apply_hidden(self.config.activation, params["hidden"], embeddings)
        return wide_product(hidden, params["output"]["matrix"]) + params["output"]["bias"]

    def pull_back(self, params, embeddings):
        """As derived, but with the large gradient factored."""
        activate = functools.partial(apply_hidden, self.config.activation)
        hidden, to_layers = jax.vjp(activate, params["hidden"], embeddings)
        output = params["output"]
        product, to_hidden = jax.vjp(lambda rows: wide_product(rows, output["matrix"]), hidden)

        def pull(gradient):
            layers, embedding_gradient = to_layers(*to_hidden(gradient))
            output = {"matrix": OuterSum(hidden, gradient), "bias": gradient.sum(0)}
            return {"hidden": layers, "output": output}, embedding_gradient

        return product + output["bias"], pull

    def _xavier(self, key):
        """Drawn per target tensor: flat, the long vector would make every weight tiny."""
        sizes = self.layout.tensor_sizes()
        keys = jax.random.split(key, len(sizes))
        fan_in = self.config.hidden[-1]
        columns = [xavier_uniform(k, fan_in, n) for k, n in zip(keys, sizes, strict=True)]
        return jnp.concatenate(columns, axis=1)

    def _hyperfan(self, hidden, key, probe_key):
        """Var(Θ) = Var(θ) / (n E[h²]), so that generated weights start as He initialisation."""
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.config.embedding_dim))
        activations = apply_hidden(self.config.activation, hidden, embeddings)
        energy = (activations**2).sum(-1).mean()
        std = jnp.asarray(np.sqrt(self.layout.he_variances()), jnp.float32) / jnp.sqrt(energy)
        shape = (self.config.hidden[-1], self.layout.num_weights)
        return jax.random.normal(key, shape) * std
