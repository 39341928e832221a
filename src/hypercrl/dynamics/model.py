"""A dynamics model: any predictor between a normaliser and a state encoding.

`Network` is the target network's configuration, which all methods share; `DynamicsModel` is what
a planner receives, a step function whose weights have already been generated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.checks import at_least, one_of
from hypercrl.data.normalizer import Normalizer, raw_inputs, raw_targets
from hypercrl.dynamics.heads import HEADS, Head, HeadParams
from hypercrl.dynamics.mlp import ACTIVATIONS, Layers, Layout, apply_mlp
from hypercrl.types import Spec

Predictor = Callable[[Float[Array, "inputs"]], Float[Array, "outputs"]]


class DynamicsModel(eqx.Module):
    """s' = f(s, a): the state moved by what a predictor makes of normalised inputs."""

    predictor: Predictor  # an `equinox.Module`: the mean output, in scaled units
    normalizer: Normalizer
    spec: Spec = eqx.field(static=True)

    def __call__(self, state: Float[Array, "S"], action: Float[Array, "A"]) -> Float[Array, "S"]:
        return self.advance(state, self.output(state, action))

    def output(
        self, state: Float[Array, "S"], action: Float[Array, "A"]
    ) -> Float[Array, "outputs"]:
        """By how much the state is expected to move, field by field."""
        return self.normalizer.scale_back(self.predictor(self.inputs(state, action)))

    def advance(
        self, state: Float[Array, "S"], output: Float[Array, "outputs"]
    ) -> Float[Array, "S"]:
        """The state after such a move."""
        return self.spec.encoding.advance(state, output)

    def inputs(self, state: Float[Array, "S"], action: Float[Array, "A"]) -> Float[Array, "inputs"]:
        """What the predictor sees, in standard deviations from the task's training data."""
        features = self.spec.encoding.features(state)
        return self.normalizer.inputs(jnp.concatenate([features, action]))

    def std(
        self, state: Float[Array, "S"], action: Float[Array, "A"]
    ) -> Float[Array, "outputs"] | None:
        """The spread of the output around its mean; None where the predictor knows of none."""
        spread = getattr(self.predictor, "std", lambda inputs: None)(self.inputs(state, action))
        return None if spread is None else self.normalizer.scale_back(spread)


class MLP(eqx.Module):
    """The target network with its weights: normalised inputs to raw outputs."""

    layers: Layers
    activation: str = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, "*N inputs"]) -> Float[Array, "*N raw"]:
        return apply_mlp(self.layers, inputs, self.activation)


class MeanPredictor(eqx.Module):
    """What a network's raw outputs say about the mean, and about the spread if asked."""

    network: Callable[[Float[Array, "inputs"]], Float[Array, "raw"]]
    head: Head = eqx.field(static=True)
    head_params: HeadParams

    def __call__(self, inputs: Float[Array, "inputs"]) -> Float[Array, "outputs"]:
        return self.head.mean(self.network(inputs))

    def std(self, inputs: Float[Array, "inputs"]) -> Float[Array, "outputs"] | None:
        return self.head.std(self.head_params, self.network(inputs))


@dataclass(frozen=True)
class Network:
    """The target network's configuration."""

    hidden: tuple[int, ...] = (200, 200)
    """Hidden layers' sizes."""
    activation: str = "relu"
    """Between its layers: `relu` (the paper's), `elu`, `tanh` or `swish`."""
    head: str = "point"
    """`point`, `gaussian` (the likelihood), or `gaussian_beta` (calm where a task begins)."""
    scale_targets: bool = False
    """Divide the targets by their spread in the task's data."""
    decay: float = 0.0
    """What the sum of the squared weights costs beside one sample's error, against learning a
    task's few thousand transitions by heart; 0: nothing (the paper's)."""

    def __post_init__(self):
        at_least(self, 1, "hidden")
        at_least(self, 0, "decay")
        one_of(self, ACTIVATIONS, "activation")
        one_of(self, HEADS, "head")

    def layout(self, spec: Spec) -> Layout:
        num_inputs = spec.encoding.num_features + spec.action_dim
        num_raw = HEADS[self.head].num_raw(spec.encoding.num_outputs)
        return Layout((num_inputs, *self.hidden, num_raw))

    def model(
        self,
        spec: Spec,
        weights: Float[Array, "num_weights"],
        head_params: HeadParams,
        normalizer: Normalizer,
    ) -> DynamicsModel:
        """The step function of a network with these weights."""
        mlp = MLP(self.layout(spec).unflatten(weights), self.activation)
        return DynamicsModel(MeanPredictor(mlp, HEADS[self.head], head_params), normalizer, spec)

    def loss(
        self,
        spec: Spec,
        weights: Float[Array, "num_weights"],
        head_params: HeadParams,
        inputs: Float[Array, "B inputs"],
        targets: Float[Array, "B outputs"],
    ) -> Float[Array, ""]:
        """L_dyn of a network with these weights on one batch."""
        raw = apply_mlp(self.layout(spec).unflatten(weights), inputs, self.activation)
        loss = HEADS[self.head].batch_loss(head_params, raw, targets)
        return self.charge_size(loss, weights, len(inputs))

    def charge_size(
        self, loss: Float[Array, ""], weights: Any, num_samples: int
    ) -> Float[Array, ""]:
        """A batch's loss, and what the weights of the task's network cost by their size."""
        if self.decay == 0:
            return loss
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(weights))
        return loss + num_samples * self.decay * squares


def prepare(
    spec: Spec,
    normalizer: Normalizer,
    states: Float[Array, "*C S"],
    actions: Float[Array, "*C A"],
    next_states: Float[Array, "*C S"],
) -> tuple[Float[Array, "*C inputs"], Float[Array, "*C outputs"]]:
    """Normalised network inputs and scaled targets, computed once a session."""
    inputs = normalizer.inputs(raw_inputs(spec, states, actions))
    return inputs, normalizer.targets(raw_targets(spec, states, next_states))
