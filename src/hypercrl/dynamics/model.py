"""A dynamics model: the target network between a normaliser and a state encoding.

`Network` is the configuration that learners share; `DynamicsModel` is what a planner receives,
a step function whose weights have already been generated.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.data.normalizer import Normalizer, raw_inputs, raw_targets
from hypercrl.dynamics.heads import HeadParams, get_head
from hypercrl.dynamics.mlp import ACTIVATIONS, Layers, Layout, apply_mlp
from hypercrl.errors import UserError
from hypercrl.types import Settings, Spec


@dataclass(frozen=True)
class Network:
    """The target network's configuration."""

    hidden: tuple[int, ...] = (200, 200)
    """Hidden layers' sizes."""
    activation: str = "relu"
    """Between its layers: `relu` (the paper's), `elu`, `tanh` or `swish`."""
    head: str = "point"
    """`point` or `gaussian`."""
    scale_targets: bool = False
    """Divide the targets by their spread in the task's data."""

    def __post_init__(self):
        if any(size < 1 for size in self.hidden):
            raise UserError(f"A hidden layer needs at least 1 unit; they have {self.hidden}.")
        if self.activation not in ACTIVATIONS:
            raise UserError(
                f"The network's activation '{self.activation}' is unknown; choose one of: "
                f"{', '.join(ACTIVATIONS)}."
            )

    @classmethod
    def configure(cls, settings: Settings) -> "Network":
        return cls(settings.hidden, settings.activation, settings.head, settings.scale_targets)

    def layout(self, spec: Spec) -> Layout:
        num_inputs = spec.encoding.num_features + spec.action_dim
        num_raw = get_head(self.head).num_raw(spec.encoding.num_outputs)
        return Layout((num_inputs, *self.hidden, num_raw))

    def model(self, spec: Spec, weights, normalizer: Normalizer) -> "DynamicsModel":
        return DynamicsModel(self.layout(spec).unflatten(weights), normalizer, spec, self)

    def apply(self, layers: Layers, inputs: Float[Array, "*N inputs"]) -> Float[Array, "*N raw"]:
        """The raw outputs, which the head interprets."""
        return apply_mlp(layers, inputs, self.activation)


class DynamicsModel(eqx.Module):
    """s' = f_θ(s, a): the state moved by the network's mean output."""

    layers: Layers
    normalizer: Normalizer
    spec: Spec = eqx.field(static=True)
    network: Network = eqx.field(static=True)

    def __call__(self, state: Float[Array, "S"], action: Float[Array, "A"]) -> Float[Array, "S"]:
        encoding = self.spec.encoding
        inputs = jnp.concatenate([encoding.features(state), action])
        inputs = (inputs - self.normalizer.input_mean) / self.normalizer.input_std
        mean = get_head(self.network.head).mean(self.network.apply(self.layers, inputs))
        return encoding.advance(state, mean * self.normalizer.output_scale)


def prepare(
    spec: Spec,
    normalizer: Normalizer,
    states: Float[Array, "*C S"],
    actions: Float[Array, "*C A"],
    next_states: Float[Array, "*C S"],
) -> tuple[Float[Array, "*C inputs"], Float[Array, "*C outputs"]]:
    """Normalised network inputs and scaled targets, computed once a session."""
    inputs = raw_inputs(spec, states, actions)
    inputs = (inputs - normalizer.input_mean) / normalizer.input_std
    return inputs, raw_targets(spec, states, next_states) / normalizer.output_scale


def dynamics_loss(
    network: Network,
    layout: Layout,
    weights: Float[Array, "num_weights"],
    head_params: HeadParams,
    inputs: Float[Array, "B inputs"],
    targets: Float[Array, "B outputs"],
) -> Float[Array, ""]:
    """L_dyn: summed over the batch, divided by the number of outputs (the authors' scale)."""
    head = get_head(network.head)
    raw = network.apply(layout.unflatten(weights), inputs)
    losses = jax.vmap(head.loss, in_axes=(None, 0, 0))(head_params, raw, targets)
    return losses.sum() + head.penalty(head_params)
