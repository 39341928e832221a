"""Follow the leader (Liu et al. 2025): at any time, the best fit to all data of the task.

The model is linear in sparse random features, so the best fit has a closed form that new rows
update exactly, in one pass and without gradients (`dynamics/sparse_features.py`). The paper has
one model for a world whose dynamics agree wherever tasks meet. Here the same state and action
lead elsewhere in another task, so the features are crossed with the task's identity: each task
has its own weights on the shared features,

    W_t = argmin Σ_{n in task t} ‖φ(x_n)ᵀ W − y_n‖² + λ ‖W − W_{t−1}‖²,

and starts from its predecessor's, which hold where it has no data yet. A finished task's
weights are never touched again: nothing is forgotten by construction.

Weights mean something only for the features that they were fitted to, and those depend on the
normaliser. A task therefore inherits its predecessor's normaliser together with the weights, and
keeps it unless its data have drifted from it (the first task has none to inherit). Then the
normaliser is fitted anew, all data of the task are absorbed again, and the ridge pulls to zero:
the old weights speak of other features. Otherwise only new rows are absorbed.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.checks import above, at_least
from hypercrl.data.buffer import num_training, training_row
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.model import DynamicsModel, Network, prepare
from hypercrl.dynamics.sparse_features import (
    LinearPredictor,
    SparseFeatures,
    absorb,
    init_factor,
    solve,
)
from hypercrl.registry import learners
from hypercrl.types import Learner, Spec, Transitions

BLOCK_ROWS = 512  # rows absorbed by one QR decomposition
UNITS_PER_GRID = 6  # hidden units of the other methods' network for which there is one grid
MAX_DRIFT = 0.1  # of the inputs' mean and spread, in standard deviations, before a refit


class LeaderState(eqx.Module):
    """The weights of every task, and the factor of the current one."""

    weights: Float[Array, "T size outputs"]
    centre: Float[Array, "size outputs"]  # where the ridge pulls the current task's weights
    factor: Float[Array, "n n"]
    num_absorbed: Int[Array, ""]  # training rows in the factor
    projection: Float[Array, "inputs projections"]
    normalizers: Normalizer
    task: Int[Array, ""]
    spec: Spec = eqx.field(static=True)

    def replace(self, **changes: Any) -> "LeaderState":
        return replace(self, **changes)


@learners.register("ftl")
@dataclass(frozen=True)
class FTL(Learner):
    """Exact online least squares on sparse random features, with weights of its own per task."""

    network: Network = Network()
    """What the other methods learn; here it decides the number of grids and the targets' scale."""
    num_grids: int | None = None
    """Random planes through the inputs, each with a grid on it; None: one for six hidden units of
    the network that other methods learn."""
    num_bins: int = 4
    """Bins along each side of a grid."""
    ridge: float = 1.0
    """λ: how strongly weights without data keep their former values."""

    def __post_init__(self):
        if self.num_grids is not None:
            at_least(self, 1, "num_grids")
        at_least(self, 1, "num_bins")
        above(self, 0, "ridge")

    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32))

    def update(self, state, data, memory, *, num_updates, key):
        """Absorb what is new; the leader needs one pass, whatever `num_updates` says."""
        return _session(self, state, data)

    def end_task(self, state, data, *, key):
        return state

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        return state.weights[0].size * (int(state.task) + 1)

    def bytes_per_task(self, state):
        return state.weights[0].nbytes + state.normalizers.bytes_per_task

    @property
    def features(self) -> SparseFeatures:
        num_grids = self.num_grids or max(1, sum(self.network.hidden) // UNITS_PER_GRID)
        return SparseFeatures(num_grids, self.num_bins)


@eqx.filter_jit
def _init(learner: FTL, spec: Spec, num_tasks: int, key: PRNGKeyArray):
    num_inputs = spec.encoding.num_features + spec.action_dim
    weights = jnp.zeros((num_tasks, learner.features.size, spec.encoding.num_outputs))
    return LeaderState(
        weights=weights,
        centre=weights[0],
        factor=init_factor(weights[0], learner.ridge),
        num_absorbed=jnp.array(0, jnp.int32),
        projection=learner.features.init(num_inputs, key=key),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: FTL, state: LeaderState, task: Int[Array, ""]):
    """Weights and normaliser of the task before, as a guess and as the ridge's centre."""
    last = jnp.maximum(task - 1, 0)
    return state.replace(
        weights=state.weights.at[task].set(state.weights[last]),
        centre=state.weights[last],
        factor=init_factor(state.weights[last], learner.ridge),
        num_absorbed=jnp.array(0, jnp.int32),
        normalizers=state.normalizers.copy(last, task),
        task=task,
    )


@eqx.filter_jit
def _model(learner: FTL, state: LeaderState, task: Int[Array, ""]):
    predictor = LinearPredictor(state.weights[task], state.projection, learner.features)
    return DynamicsModel(predictor, state.normalizers.select(task), state.spec)


@eqx.filter_jit
def _session(learner: FTL, state: LeaderState, data: Transitions):
    """Bring the factor up to date with the buffer and solve for the weights."""
    spec, task, count = state.spec, state.task, num_training(data.count)
    old = state.normalizers.select(task)
    fresh = fit_normalizer(spec, data, learner.network.scale_targets)
    has_none = (task == 0) & (state.num_absorbed == 0)
    normalizer, centre, factor, start = jax.lax.cond(
        has_none | (_drift(old, fresh) > MAX_DRIFT),
        lambda: (fresh, *_empty(learner, state), jnp.zeros_like(count)),
        lambda: (old, state.centre, state.factor, state.num_absorbed),
    )
    factor = _absorb_rows(learner, state, data, normalizer, factor, start, count)
    weights, minimum = solve(factor, spec.encoding.num_outputs)

    pull = learner.ridge * jnp.sum((weights - centre) ** 2)
    total = jnp.maximum(count, 1) * spec.encoding.num_outputs
    info = {"loss": (minimum - pull) / total, "regulariser": pull / total}
    new = state.replace(
        weights=state.weights.at[task].set(weights),
        centre=centre,
        factor=factor,
        num_absorbed=count,
        normalizers=state.normalizers.replace(task, normalizer),
    )
    return new, info


def _empty(learner: FTL, state: LeaderState):
    """Centre and factor under a new normaliser: nothing is known of its features."""
    zeros = jnp.zeros_like(state.centre)
    return zeros, init_factor(zeros, learner.ridge)


def _drift(old: Normalizer, fresh: Normalizer) -> Float[Array, ""]:
    """How far the inputs have moved or spread since the normaliser was fitted."""
    moved = jnp.abs(fresh.input_mean - old.input_mean) / old.input_std
    spread = jnp.abs(fresh.input_std / old.input_std - 1.0)
    return jnp.maximum(moved, spread).max()


def _absorb_rows(learner: FTL, state: LeaderState, data, normalizer, factor, start, count):
    """The factor with training rows `start` to `count` added, a block at a time."""
    inputs, targets = prepare(state.spec, normalizer, *data[:3])

    def add_block(i, factor):
        samples = start + i * BLOCK_ROWS + jnp.arange(BLOCK_ROWS)
        rows = jnp.minimum(training_row(samples), len(inputs) - 1)
        is_new = (samples < count)[:, None]
        features = learner.features.apply(state.projection, inputs[rows])
        return absorb(
            factor, jnp.where(is_new, features, 0.0), jnp.where(is_new, targets[rows], 0.0)
        )

    num_blocks = -(-(count - start) // BLOCK_ROWS)
    return jax.lax.fori_loop(0, num_blocks, add_block, factor)
