"""How the networks of all tasks are laid out: what they share, and what each has of its own.

Huang et al. (2021), section V-D: all baselines resemble the target network. A variant is one
file: `multi_head`, `separate` or `progressive`.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.dynamics.heads import HEADS, Head, HeadParams
from hypercrl.dynamics.model import MeanPredictor, Network
from hypercrl.types import Spec

RawNetwork = Callable[[Float[Array, "*N inputs"]], Float[Array, "*N raw"]]


class Params(NamedTuple):
    """What the tasks share, and what each has of its own: arrays with one row a task."""

    shared: Any
    tasks: Any
    bounds: HeadParams  # the Gaussian head's

    def of(self, task: Int[Array, ""] | int) -> "Params":
        """What one task's network is made of."""
        own = jax.tree.map(lambda x: x[task], (self.tasks, self.bounds))
        return Params(self.shared, *own)

    def put(self, task: Int[Array, ""] | int, own: "Params") -> "Params":
        """These parameters with one task's part replaced."""
        rows = jax.tree.map(
            lambda x, y: x.at[task].set(y), (self.tasks, self.bounds), (own.tasks, own.bounds)
        )
        return Params(own.shared, *rows)


@dataclass(frozen=True)
class Architecture(abc.ABC):
    """The networks of all tasks; stateless. `own` are one task's `Params`."""

    network: Network

    @abc.abstractmethod
    def init_networks(self, spec: Spec, num_tasks: int, *, key: PRNGKeyArray) -> tuple[Any, Any]:
        """What is shared, and a row for each task, drawn now so that tasks do not interact."""

    @abc.abstractmethod
    def others(self, params: Params, task: Int[Array, ""]) -> Any:
        """What the network of `task` reads of other tasks and never trains."""

    @abc.abstractmethod
    def build(self, spec: Spec, own: Params, others: Any) -> RawNetwork:
        """One task's network, an `equinox.Module` from normalised inputs to raw outputs."""

    @property
    def head(self) -> Head:
        return HEADS[self.network.head]

    def init(self, spec: Spec, num_tasks: int, *, key: PRNGKeyArray) -> Params:
        """The parameters of all tasks."""
        bounds = self.head.init(spec.encoding.num_outputs)
        rows = jax.tree.map(lambda x: jnp.tile(x, (num_tasks, 1)), bounds)
        return Params(*self.init_networks(spec, num_tasks, key=key), rows)

    def predictor(self, spec: Spec, own: Params, others: Any) -> MeanPredictor:
        """One task's network for planning."""
        return MeanPredictor(self.build(spec, own, others), self.head, own.bounds)

    def losses(
        self,
        spec: Spec,
        own: Params,
        others: Any,
        inputs: Float[Array, "B inputs"],
        targets: Float[Array, "B outputs"],
    ) -> Float[Array, "B"]:
        """Each sample's loss, divided by the number of outputs."""
        return self.head.losses(own.bounds, self.build(spec, own, others)(inputs), targets)

    def loss(
        self,
        spec: Spec,
        own: Params,
        others: Any,
        inputs: Float[Array, "B inputs"],
        targets: Float[Array, "B outputs"],
    ) -> Float[Array, ""]:
        """L_dyn of one task on one batch."""
        raw = self.build(spec, own, others)(inputs)
        loss = self.head.batch_loss(own.bounds, raw, targets)
        return self.network.charge_size(loss, (own.shared, own.tasks), len(inputs))

    def negative_log_likelihood(
        self,
        spec: Spec,
        own: Params,
        others: Any,
        inputs: Float[Array, "inputs"],
        target: Float[Array, "outputs"],
    ) -> Float[Array, ""]:
        """Of one sample, summed over the outputs."""
        raw = self.build(spec, own, others)(inputs)
        return self.head.negative_log_likelihood(own.bounds, raw, target)
