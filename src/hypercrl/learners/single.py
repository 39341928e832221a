"""Single-task reference: a network of its own for each task, learnt from scratch.

It neither transfers nor forgets, and grows by a network per task. Its returns are the r*_i by
which forward transfer is measured.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.dynamics.heads import get_head
from hypercrl.learners.baseline import BaselineLearner
from hypercrl.registry import learners


@learners.register("single")
@dataclass(frozen=True)
class Single(BaselineLearner):
    """One independent target network per task."""

    def init_params(self, spec, num_tasks, *, key):
        layout = self.network.layout(spec)
        networks = [layout.init(key=k) for k in jax.random.split(key, num_tasks)]
        bounds = get_head(self.network.head).init(spec.encoding.num_outputs)
        bounds = jax.tree.map(lambda x: jnp.tile(x, (num_tasks, 1)), bounds)
        return {"heads": jnp.stack(networks), "bounds": bounds}

    def weights(self, params, task):
        return params["heads"][task]
