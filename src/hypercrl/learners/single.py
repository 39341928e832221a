"""Single-task reference: a network of its own for each task, learnt from scratch.

It neither transfers nor forgets, and grows by a network per task. Its returns are the r*_i by
which forward transfer is measured.
"""

from dataclasses import dataclass

import jax

from hypercrl.learners.baseline import BaselineLearner, Params
from hypercrl.registry import learners


@learners.register("single")
@dataclass(frozen=True)
class Single(BaselineLearner):
    """One independent target network per task."""

    def init_params(self, spec, num_tasks, *, key):
        layout = self.network.layout(spec)
        networks = jax.vmap(lambda k: layout.init(key=k))(jax.random.split(key, num_tasks))
        return Params((), {"weights": networks, "bounds": self.init_bounds(spec, num_tasks)})

    def layers(self, own, spec):
        return self.network.layout(spec).unflatten(own.tasks["weights"])
