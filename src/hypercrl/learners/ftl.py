"""Follow the leader (Liu et al. 2025): at any time, the best fit to all data of the task.

The model is linear in sparse random features, so the best fit has a closed form that new rows
update exactly, in one pass and without gradients (`dynamics/sparse_features.py`). The paper has
one model for a world whose dynamics agree wherever tasks meet. Here the same state and action
lead elsewhere in another task, so the features are crossed with the task's identity: each task
has its own weights on the shared features,

    W_t = argmin Σ_{n in task t} ‖φ(x_n)ᵀ W − y_n‖² + λ ‖W − W_{t−1}‖²,

and starts from its predecessor's, which hold where it has no data yet. A finished task's
weights are never touched again: nothing is forgotten by construction.

Features must not move under the factor, yet the spread of the inputs is only known once there
are data. The normaliser is refitted when the data have drifted from it, and the task's data are
then absorbed anew; otherwise only new rows are.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from hypercrl.data.buffer import num_training, training_row
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.model import prepare
from hypercrl.dynamics.sparse_features import SparseFeatures, absorb, init_factor, solve
from hypercrl.errors import UserError
from hypercrl.registry import learners
from hypercrl.types import Learner, Settings, Spec, Transitions

BLOCK_ROWS = 512  # rows absorbed by one QR decomposition
UNITS_PER_GRID = 6  # hidden units of a suite's target network for which there is one grid
MAX_DRIFT = 0.1  # of the inputs' mean and spread, in standard deviations, before a refit


class LeaderState(eqx.Module):
    """The weights of every task, and the factor of the current one."""

    weights: Float[Array, "T size outputs"]
    factor: Float[Array, "size+outputs size+outputs"]
    num_absorbed: Int[Array, ""]  # training rows in the factor
    projection: Float[Array, "inputs 2*grids"]
    normalizers: Normalizer
    task: Int[Array, ""]
    spec: Spec = eqx.field(static=True)


@learners.register("ftl")
@dataclass(frozen=True)
class FTL(Learner):
    """Exact online least squares on sparse random features, with weights of its own per task."""

    num_grids: int = 64
    """Random planes through the inputs, each with a grid on it."""
    num_bins: int = 4
    """Bins along each side of a grid."""
    ridge: float = 1.0
    """λ: how strongly weights without data keep their former values."""
    scale_targets: bool = False
    """Divide the targets by their spread in the task's data."""

    def __post_init__(self):
        if self.num_grids < 1 or self.num_bins < 1 or self.ridge <= 0:
            raise UserError(
                "FTL needs a num_grids and a num_bins of at least 1 and a ridge above 0; it was "
                f"given {self.num_grids}, {self.num_bins} and {self.ridge}."
            )

    @classmethod
    def configure(cls, settings: Settings):
        num_grids = max(1, sum(settings.hidden) // UNITS_PER_GRID)
        return cls(num_grids=num_grids, scale_targets=settings.scale_targets)

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
        return state.weights.size

    def bytes_per_task(self, state):
        return state.weights[0].nbytes + state.normalizers.bytes_per_task

    @property
    def features(self) -> SparseFeatures:
        return SparseFeatures(self.num_grids, self.num_bins)


class LeaderModel(eqx.Module):
    """s' from the features of (s, a) and one task's weights."""

    weights: Float[Array, "size outputs"]
    projection: Float[Array, "inputs 2*grids"]
    normalizer: Normalizer
    features: SparseFeatures = eqx.field(static=True)
    spec: Spec = eqx.field(static=True)

    def __call__(self, state, action):
        encoding = self.spec.encoding
        inputs = jnp.concatenate([encoding.features(state), action])
        inputs = (inputs - self.normalizer.input_mean) / self.normalizer.input_std
        output = self.features.apply(self.projection, inputs) @ self.weights
        return encoding.advance(state, output * self.normalizer.output_scale)


@eqx.filter_jit
def _init(learner: FTL, spec: Spec, num_tasks: int, key):
    num_inputs = spec.encoding.num_features + spec.action_dim
    weights = jnp.zeros((num_tasks, learner.features.size, spec.encoding.num_outputs))
    return LeaderState(
        weights=weights,
        factor=init_factor(weights[0], learner.ridge),
        num_absorbed=jnp.array(0, jnp.int32),
        projection=learner.features.init(num_inputs, key=key),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: FTL, state: LeaderState, task):
    last = jnp.maximum(task - 1, 0)
    return LeaderState(
        weights=state.weights.at[task].set(state.weights[last]),
        factor=init_factor(state.weights[last], learner.ridge),
        num_absorbed=jnp.array(0, jnp.int32),
        projection=state.projection,
        normalizers=state.normalizers.copy(last, task),
        task=task,
        spec=state.spec,
    )


@eqx.filter_jit
def _model(learner: FTL, state: LeaderState, task):
    normalizer = state.normalizers.select(task)
    weights = state.weights[task]
    return LeaderModel(weights, state.projection, normalizer, learner.features, state.spec)


@eqx.filter_jit
def _session(learner: FTL, state: LeaderState, data: Transitions):
    """Bring the factor up to date with the buffer and solve for the weights."""
    spec, task, count = state.spec, state.task, num_training(data.count)
    old, fresh = state.normalizers.select(task), fit_normalizer(spec, data, learner.scale_targets)
    refit = (state.num_absorbed == 0) | (_drift(old, fresh) > MAX_DRIFT)
    centre = jnp.where(task > 0, state.weights[task - 1], 0.0)
    normalizer, factor, start = jax.lax.cond(
        refit,
        lambda: (fresh, init_factor(centre, learner.ridge), jnp.zeros_like(count)),
        lambda: (old, state.factor, state.num_absorbed),
    )
    factor = _absorb_rows(learner, state, data, normalizer, factor, start, count)
    weights, minimum = solve(factor, spec.encoding.num_outputs)

    pull = learner.ridge * jnp.sum((weights - centre) ** 2)
    total = jnp.maximum(count, 1) * spec.encoding.num_outputs
    info = {"loss": (minimum - pull) / total, "regulariser": pull / total}
    new = LeaderState(
        weights=state.weights.at[task].set(weights),
        factor=factor,
        num_absorbed=count,
        projection=state.projection,
        normalizers=state.normalizers.replace(task, normalizer),
        task=task,
        spec=spec,
    )
    return new, info


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
