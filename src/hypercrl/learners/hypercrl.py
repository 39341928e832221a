"""HyperCRL (Huang et al. 2021): a task-conditioned hypernetwork with an output regulariser.

    L_t = L_dyn(Θ, e_t) + L_reg(Θ)

L_reg keeps old tasks' networks where H_{Θ_{t−1}}(e_i) put them: the paper's holds their weights,
another their predictions (`hypercrl.learning`). Θ_{t−1} is a snapshot, taken when a task starts;
with the embeddings, it is all that is stored to remember every old task by. With look-ahead (von
Oswald et al. 2020) L_reg is evaluated at Θ + ΔΘ, where ΔΘ is the step that Adam would take on
L_dyn alone. The embedding e_t is trained on L_dyn; older embeddings are frozen.

As in the authors' runs, the gradients in Θ and in e_t are clipped each for itself, and the
look-ahead step follows the gradient of L_dyn as it is, before any clipping.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.checks import above, one_of
from hypercrl.data.buffer import is_training, sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network, prepare
from hypercrl.learning.gradients import add_gradients, densify
from hypercrl.learning.regulariser import OldTasks, Regulariser
from hypercrl.learning.session import compiled_session, run_derived_updates
from hypercrl.learning.training import Training, init_optimizer
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.registry import learners
from hypercrl.types import Learner, Spec, Transitions


class HyperState(eqx.Module):
    """Everything that HyperCRL carries from one call to the next."""

    params: Any  # {"hypernet": Θ, "head": the Gaussian head's bounds}
    embeddings: Float[Array, "T E"]
    snapshot: Any  # Θ_{t-1}: the hypernetwork when the task under way began
    optimizer: Any
    embedding_optimizer: Any
    kept: Any  # by the regulariser, of finished tasks
    normalizers: Normalizer
    task: Int[Array, ""]
    spec: Spec = eqx.field(static=True)

    def replace(self, **changes: Any) -> "HyperState":
        return replace(self, **changes)


@learners.register("hypercrl")
@dataclass(frozen=True)
class HyperCRL(Learner):
    """The paper's method. Keeps an embedding and a normaliser per task, and no data."""

    network: Network = Network()
    hypernet: Hypernet = FullHypernet()
    training: Training = Training()
    learning_rate: float = 1e-4
    """Adam's step size for the hypernetwork."""
    embedding_learning_rate: float | None = None
    """Adam's step size for the current task's embedding; None: as for the hypernetwork."""
    regulariser: Regulariser = WeightRegulariser()
    lookahead: bool = True
    """Evaluate the regulariser where Adam's next step on the dynamics loss would lead."""
    new_embedding: Literal["random", "mean"] = "random"
    """Where a task's embedding starts: anywhere (the paper's), or at the mean of those before."""

    def __post_init__(self):
        above(self, 0, "learning_rate")
        one_of(self, ("random", "mean"), "new_embedding")
        if self.embedding_learning_rate is not None:
            above(self, 0, "embedding_learning_rate")

    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32), key)

    def update(self, state, data, memory, *, num_updates, key):
        return _session(self, state, data, jnp.array(num_updates, jnp.int32), key)

    def end_task(self, state, data, *, key):
        return _end_task(self, state, data, key)

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        begun = state.embeddings[: int(state.task) + 1]
        return sum(x.size for x in jax.tree.leaves((state.params, begun)))

    def bytes_per_task(self, state):
        rows = sum(x[0].nbytes for x in jax.tree.leaves((state.embeddings, state.kept)))
        return rows + state.normalizers.bytes_per_task

    def embeddings(self, state):
        return state.embeddings

    def upgrade(self, arrays):
        """Up to version 0.2 the generated weights of old tasks were kept, and no snapshot."""
        if "anchors" not in arrays:
            return arrays
        current = {n: x for n, x in arrays.items() if n.startswith(_HYPERNET)}
        snapshot = {f"snapshot/{n.removeprefix(_HYPERNET)}": x for n, x in current.items()}
        return {n: x for n, x in arrays.items() if n != "anchors"} | snapshot


_HYPERNET = "params/hypernet/"  # where Θ is in a saved state


@eqx.filter_jit
def _init(learner: HyperCRL, spec: Spec, num_tasks: int, key: PRNGKeyArray):
    layout = learner.network.layout(spec)
    params = {
        "hypernet": learner.hypernet.init(layout, key=key),
        "head": HEADS[learner.network.head].init(spec.encoding.num_outputs),
    }
    embeddings = jnp.zeros((num_tasks, learner.hypernet.embedding_dim))
    return HyperState(
        params=params,
        embeddings=embeddings,
        snapshot=params["hypernet"],
        optimizer=init_optimizer(params),
        embedding_optimizer=init_optimizer(embeddings[0]),
        kept=learner.regulariser.init(spec, num_tasks),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: HyperCRL, state: HyperState, task: Int[Array, ""], key: PRNGKeyArray):
    """A new embedding, and a snapshot of the hypernetwork as it is."""
    embedding = jax.random.normal(key, state.embeddings[0].shape)
    if learner.new_embedding == "mean":
        is_old = (jnp.arange(len(state.embeddings)) < task)[:, None]
        mean = jnp.where(is_old, state.embeddings, 0.0).sum(0) / jnp.maximum(task, 1)
        embedding = jnp.where(task > 0, mean, embedding)
    return state.replace(
        embeddings=state.embeddings.at[task].set(embedding),
        snapshot=state.params["hypernet"],
        optimizer=init_optimizer(state.params),
        embedding_optimizer=init_optimizer(embedding),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
    )


@eqx.filter_jit
def _end_task(learner: HyperCRL, state: HyperState, data: Transitions, key: PRNGKeyArray):
    """Let the regulariser keep what it needs of the task's inputs."""
    normalizer = state.normalizers.select(state.task)
    inputs, _ = prepare(state.spec, normalizer, *data[:3])
    rows = jnp.arange(len(inputs))
    used = is_training(rows) & (rows < data.count)
    kept = learner.regulariser.remember(state.kept, state.task, inputs, used, key=key)
    return state.replace(kept=kept)


@eqx.filter_jit
def _model(learner: HyperCRL, state: HyperState, task: Int[Array, ""]):
    layout, row = learner.network.layout(state.spec), state.embeddings[task][None]
    weights = learner.hypernet.generate(layout, state.params["hypernet"], row)[0]
    normalizer = state.normalizers.select(task)
    return learner.network.model(state.spec, weights, state.params["head"], normalizer)


@compiled_session
def _session(
    learner: HyperCRL,
    state: HyperState,
    data: Transitions,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
):
    """S updates of Θ and e_t on the current task's data."""
    spec, task, training = state.spec, state.task, learner.training
    rate = learner.learning_rate
    embedding_rate = learner.embedding_learning_rate or rate
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    inputs, targets = prepare(spec, normalizer, *data[:3])

    def weights_of(carry):
        """What an update starts from, unless the update itself decides about the tasks."""
        if learner.regulariser.draws:
            return None
        params, embeddings, *_ = carry
        return starting_weights(learner, state, params, embeddings, all_rows)

    num_tasks = len(state.embeddings)
    all_rows = learner.regulariser.rows(task, num_tasks, key)
    held = None if learner.regulariser.draws else anchors_of(learner, state, all_rows)

    def step(carry, weights, key, progress):
        params, embeddings, optimizer, embedding_optimizer = carry
        batch_key, row_key, penalty_key = jax.random.split(key, 3)
        chosen = sample_rows(batch_key, data.count, training.batch_size)
        batch = (inputs[chosen], targets[chosen])
        rows = learner.regulariser.rows(task, num_tasks, row_key)
        if weights is None:
            weights = starting_weights(learner, state, params, embeddings, rows)
        anchors = anchors_of(learner, state, rows) if held is None else held
        update = Update(carry, weights, anchors, batch, rows, progress, penalty_key)
        (gradient, slope), (fit, penalty) = gradients_of_losses(learner, state, update)
        params, optimizer = training.descend(rate, params, gradient, optimizer, progress)
        embedding, embedding_optimizer = training.descend(
            embedding_rate, embeddings[task], slope, embedding_optimizer, progress
        )
        embeddings = embeddings.at[task].set(embedding)
        info = {"loss": fit / training.batch_size, "regulariser": penalty / training.batch_size}
        return (params, embeddings, optimizer, embedding_optimizer), info

    carry = (state.params, state.embeddings, state.optimizer, state.embedding_optimizer)
    carry, info = run_derived_updates(step, weights_of, carry, num_updates, key)
    params, embeddings, optimizer, embedding_optimizer = carry
    new = state.replace(
        params=params,
        embeddings=embeddings,
        optimizer=optimizer,
        embedding_optimizer=embedding_optimizer,
        normalizers=state.normalizers.replace(task, normalizer),
    )
    return new, info


class Update(NamedTuple):
    """What one update starts from."""

    carry: tuple  # Θ and the head, embeddings, and the moments of both
    weights: Float[Array, "_ W"]  # of the current task and, without look-ahead, of `rows`
    anchors: Float[Array, "R W"]  # where the weights of `rows` were when the task began
    batch: tuple
    rows: Int[Array, "R"]  # tasks that the regulariser looks at
    progress: Float[Array, ""]
    key: PRNGKeyArray


def starting_weights(learner: HyperCRL, state: HyperState, params, embeddings, rows):
    """The current task's weights and, without look-ahead, those that are regularised."""
    own = embeddings[state.task][None]
    wanted = own if learner.lookahead else jnp.concatenate([own, embeddings[rows]])
    layout = learner.network.layout(state.spec)
    return learner.hypernet.generate(layout, params["hypernet"], wanted)


def anchors_of(learner: HyperCRL, state: HyperState, rows: Int[Array, "R"]):
    """H_{Θ_{t−1}}(e_i) for some tasks; those of tasks not finished yet count nothing."""
    layout = learner.network.layout(state.spec)
    return learner.hypernet.generate(layout, state.snapshot, state.embeddings[rows])


def gradients_of_losses(learner: HyperCRL, state: HyperState, update: Update):
    """Gradients of L_t in Θ and of L_dyn in e_t, and the two parts of L_t."""
    params, embeddings, optimizer, _ = update.carry
    spec, layout = state.spec, learner.network.layout(state.spec)
    rows, own = update.rows, embeddings[state.task][None]
    pull_back = learner.hypernet.pull_back
    fit_and_slopes = jax.value_and_grad(learner.network.loss, argnums=(1, 2))
    fit, (slope, head) = fit_and_slopes(spec, update.weights[0], params["head"], *update.batch)
    old = OldTasks(
        rows,
        state.task,
        state.kept,
        learner.training.batch_size,
        learner.network,
        params["head"],
        spec,
    )

    def penalty_and_slopes(weights):
        penalise = jax.value_and_grad(learner.regulariser.penalty)
        return penalise(weights, update.anchors, old, update.key)

    if not learner.lookahead:  # one pass over Θ serves both
        _, pull = pull_back(layout, params["hypernet"], jnp.concatenate([own, embeddings[rows]]))
        penalty, slopes = penalty_and_slopes(update.weights[1:])
        gradient, embedding_gradients = pull(jnp.concatenate([slope[None], slopes]))
        gradient = {"hypernet": gradient, "head": head}
        return (gradient, embedding_gradients[0]), (fit, penalty)

    _, pull = pull_back(layout, params["hypernet"], own)
    gradient, embedding_gradient = pull(slope[None])
    gradient = {"hypernet": gradient, "head": head}
    ahead = lookahead_point(learner, params, gradient, optimizer, update.progress)
    weights, pull = pull_back(layout, ahead["hypernet"], embeddings[rows])
    penalty, slopes = penalty_and_slopes(weights)
    gradient |= {"hypernet": add_gradients(gradient["hypernet"], pull(slopes)[0])}
    return (gradient, embedding_gradient[0]), (fit, penalty)


def lookahead_point(learner: HyperCRL, params, gradient, optimizer, progress):
    """Θ + ΔΘ, with ΔΘ Adam's step on the unclipped gradient of L_dyn alone.

    No gradient flows through the step.
    """
    rate, dense = learner.learning_rate, densify(gradient)
    step, _ = learner.training.adam_step(rate, dense, optimizer, progress)
    return jax.tree.map(jnp.add, params, step)
