"""Progressive neural networks (Rusu et al. 2016): a column per task, the earlier ones frozen.

The network is in `dynamics/progressive.py`. Nothing is forgotten because nothing old is ever
trained; what earlier tasks learnt reaches a new column through its adapters. The price is a
model that grows with every task, in memory and in the time of an update and of a plan.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.heads import get_head
from hypercrl.dynamics.progressive import Column, Progressive
from hypercrl.errors import UserError
from hypercrl.learners.baseline import BaselineLearner, Params
from hypercrl.registry import learners
from hypercrl.types import Spec


class Frozen(NamedTuple):
    """All columns, of which those before `task` are read."""

    columns: Column
    task: Int[Array, ""]


@learners.register("pnn")
@dataclass(frozen=True)
class PNN(BaselineLearner):
    """Grows by a target network and its adapters per task."""

    adapter: int = 16
    """Numbers to which an adapter reduces the activations of all earlier columns."""

    def __post_init__(self):
        super().__post_init__()
        if self.adapter < 1:
            raise UserError(f"PNN needs an adapter of at least 1 and not {self.adapter}.")

    def init_params(self, spec, num_tasks, *, key):
        network = self._columns(spec, num_tasks)
        columns = jax.vmap(lambda k: network.init(key=k))(jax.random.split(key, num_tasks))
        return Params((), {"column": columns, "bounds": self.init_bounds(spec, num_tasks)})

    def frozen(self, params, task):
        return Frozen(params.tasks["column"], task)

    def forward(self, own, frozen, inputs, spec):
        return _forward(self._network(frozen, spec), own.tasks["column"], frozen, inputs)

    def model(self, own, frozen, normalizer, spec):
        network = self._network(frozen, spec)
        return ProgressiveModel(
            own.tasks["column"], frozen, normalizer, network, spec, self.network.head
        )

    def _network(self, frozen: Frozen, spec: Spec) -> Progressive:
        return self._columns(spec, len(frozen.columns.weights))

    def _columns(self, spec: Spec, num_columns: int) -> Progressive:
        layout, activation = self.network.layout(spec), self.network.activation
        return Progressive(layout, num_columns, self.adapter, activation)


def _forward(network: Progressive, column: Column, frozen: Frozen, inputs):
    earlier = network.earlier(frozen.columns, frozen.task, inputs)
    raw, _ = network.apply(column, earlier, inputs)
    return raw


class ProgressiveModel(eqx.Module):
    """s' from one column and the frozen ones before it."""

    column: Column
    frozen: Frozen
    normalizer: Normalizer
    network: Progressive = eqx.field(static=True)
    spec: Spec = eqx.field(static=True)
    head: str = eqx.field(static=True)

    def __call__(self, state, action):
        encoding = self.spec.encoding
        inputs = jnp.concatenate([encoding.features(state), action])
        inputs = (inputs - self.normalizer.input_mean) / self.normalizer.input_std
        raw = _forward(self.network, self.column, self.frozen, inputs[None])[0]
        return encoding.advance(state, get_head(self.head).mean(raw) * self.normalizer.output_scale)
