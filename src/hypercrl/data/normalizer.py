"""Input normalisation per task, as in PETS (Chua et al. 2018), and the scale of the targets.

Each task keeps its own numbers, so that a later task's data cannot move what an old task's
network sees. Dividing the targets by their spread keeps the dynamics loss on the scale of the
regulariser: raw pusher differences are millimetres, and Adam would follow the regulariser's
jitter alone.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hypercrl.data.buffer import is_training
from hypercrl.types import Spec, Transitions

SMALLEST_SPREAD = 1e-6  # a feature that varies less than this is constant; leave it as it is


class Normalizer(eqx.Module):
    """Statistics of one task; with a leading axis, of all tasks."""

    input_mean: Float[Array, "*T inputs"]
    input_std: Float[Array, "*T inputs"]
    output_scale: Float[Array, "*T outputs"]

    @classmethod
    def identity(cls, spec: Spec, num_tasks: int) -> "Normalizer":
        num_inputs = spec.encoding.num_features + spec.action_dim
        return cls(
            jnp.zeros((num_tasks, num_inputs)),
            jnp.ones((num_tasks, num_inputs)),
            jnp.ones((num_tasks, spec.encoding.num_outputs)),
        )

    def select(self, task: Int[Array, ""] | int) -> "Normalizer":
        """The statistics of one task."""
        return jax.tree.map(lambda x: x[task], self)

    def replace(self, task: Int[Array, ""] | int, one: "Normalizer") -> "Normalizer":
        """These statistics with one task's replaced."""
        return jax.tree.map(lambda x, y: x.at[task].set(y), self, one)

    def copy(self, source: Int[Array, ""] | int, target: Int[Array, ""] | int) -> "Normalizer":
        """Give `target` the statistics of `source`, as a guess before it has data."""
        return self.replace(target, self.select(source))

    def inputs(self, raw: Float[Array, "*C inputs"]) -> Float[Array, "*C inputs"]:
        """Inputs as one task's network sees them."""
        mean, std = (jnp.broadcast_to(x, raw.shape) for x in (self.input_mean, self.input_std))
        return (raw - mean) / std

    def targets(self, raw: Float[Array, "*C outputs"]) -> Float[Array, "*C outputs"]:
        """What one task's network has to predict; `scale_back` is the inverse."""
        return raw / jnp.broadcast_to(self.output_scale, raw.shape)

    def scale_back(self, outputs: Float[Array, "outputs"]) -> Float[Array, "outputs"]:
        return outputs * self.output_scale

    @property
    def bytes_per_task(self) -> int:
        return sum(x[0].nbytes for x in jax.tree.leaves(self))


def raw_inputs(
    spec: Spec, states: Float[Array, "*C S"], actions: Float[Array, "*C A"]
) -> Float[Array, "*C inputs"]:
    """State features and action side by side, for any number of leading axes."""
    features = jnp.vectorize(spec.encoding.features, signature="(s)->(f)")(states)
    return jnp.concatenate([features, actions], axis=-1)


def raw_targets(
    spec: Spec, states: Float[Array, "*C S"], next_states: Float[Array, "*C S"]
) -> Float[Array, "*C outputs"]:
    """The outputs that would have predicted the transitions exactly."""
    return jnp.vectorize(spec.encoding.target, signature="(s),(s)->(o)")(states, next_states)


def fit_normalizer(spec: Spec, data: Transitions, scale_targets: bool) -> Normalizer:
    """Statistics over the training rows of a buffer."""
    rows = jnp.arange(len(data.states))
    used = (is_training(rows) & (rows < data.count))[:, None]
    mean, std = moments(raw_inputs(spec, data.states, data.actions), used)
    if scale_targets:
        _, scale = moments(raw_targets(spec, data.states, data.next_states), used)
    else:
        scale = jnp.ones(spec.encoding.num_outputs)
    return Normalizer(mean, std, scale)


def moments(
    x: Float[Array, "C n"], used: Bool[Array, "C 1"]
) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """Mean and spread over the rows that are used; a spread of 1 for what does not vary."""
    count = jnp.maximum(used.sum(), 1)
    mean = jnp.where(used, x, 0.0).sum(0) / count
    variance = jnp.where(used, (x - mean[None]) ** 2, 0.0).sum(0) / count
    std = jnp.sqrt(variance)
    return mean, jnp.where(std < SMALLEST_SPREAD, 1.0, std)
