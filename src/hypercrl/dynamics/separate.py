"""A network of its own for each task; nothing is shared."""

from dataclasses import dataclass

import jax

from hypercrl.dynamics.architecture import Architecture
from hypercrl.dynamics.model import MLP


@dataclass(frozen=True)
class Separate(Architecture):
    """One target network a task."""

    def init_networks(self, spec, num_tasks, *, key):
        layout = self.network.layout(spec)
        return (), jax.vmap(lambda k: layout.init(key=k))(jax.random.split(key, num_tasks))

    def others(self, params, task):
        return None

    def build(self, spec, own, others):
        layers = self.network.layout(spec).unflatten(own.tasks)
        return MLP(layers, self.network.activation)
