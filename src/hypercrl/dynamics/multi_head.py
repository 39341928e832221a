"""A trunk that every task shares and an output layer of its own for each."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.dynamics.architecture import Architecture
from hypercrl.dynamics.mlp import Layout
from hypercrl.dynamics.model import MLP


@dataclass(frozen=True)
class MultiHead(Architecture):
    """The trunk's weights are one flat vector, and so are each head's."""

    def init_networks(self, spec, num_tasks, *, key):
        layout = self.network.layout(spec)
        networks = jax.vmap(lambda k: layout.init(key=k))(jax.random.split(key, num_tasks))
        trunk, heads = jnp.split(networks, [layout.num_weights - layout.num_head_weights], axis=1)
        return trunk[0], heads

    def others(self, params, task):
        return None

    def build(self, spec, own, others):
        sizes = self.network.layout(spec).sizes
        trunk = Layout(sizes[:-1]).unflatten(own.shared)
        head = Layout(sizes[-2:]).unflatten(own.tasks)
        return MLP(trunk + head, self.network.activation)
