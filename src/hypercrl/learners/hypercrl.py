"""HyperCRL (Huang et al. 2021): a task-conditioned hypernetwork with an output regulariser.

    L_t   = L_dyn(Θ, e_t) + L_reg(Θ)
    L_reg = β / (t − 1) Σ_{i<t} ‖H_{Θ_{t−1}}(e_i) − H_Θ(e_i)‖²

The outputs H_{Θ_{t−1}}(e_i) are computed once, when a task starts. With look-ahead (von Oswald
et al. 2020) L_reg is evaluated at Θ + ΔΘ, where ΔΘ is the step that Adam would take on L_dyn
alone. The embedding e_t is trained on L_dyn; embeddings of older tasks are frozen.

As in the authors' runs, the gradients in Θ and in e_t are clipped each for itself, and the
look-ahead step follows the gradient of L_dyn as it is, before any clipping.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.checks import above, at_least
from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network, prepare
from hypercrl.learning.gradients import add_gradients, densify
from hypercrl.learning.session import compiled_session, run_derived_updates
from hypercrl.learning.training import Training, init_optimizer
from hypercrl.registry import learners
from hypercrl.types import Learner, Spec, Transitions


class HyperState(eqx.Module):
    """Everything that HyperCRL carries from one call to the next."""

    params: Any  # {"hypernet": Θ, "head": the Gaussian head's bounds}
    embeddings: Float[Array, "T E"]
    anchors: Float[Array, "T W"]  # H_{Θ_{t-1}}(e_i); rows of tasks not yet finished are zero
    optimizer: Any
    embedding_optimizer: Any
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
    beta: float = 0.05
    """Strength of the regulariser."""
    lookahead: bool = True
    """Evaluate the regulariser where Adam's next step on the dynamics loss would lead."""

    def __post_init__(self):
        above(self, 0, "learning_rate")
        if self.embedding_learning_rate is not None:
            above(self, 0, "embedding_learning_rate")
        at_least(self, 0, "beta")

    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32), key)

    def update(self, state, data, memory, *, num_updates, key):
        return _session(self, state, data, jnp.array(num_updates, jnp.int32), key)

    def end_task(self, state, data, *, key):
        return state

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        return sum(x.size for x in jax.tree.leaves((state.params, state.embeddings)))

    def bytes_per_task(self, state):
        return state.embeddings[0].nbytes + state.normalizers.bytes_per_task

    def embeddings(self, state):
        return state.embeddings

    def regulariser(
        self,
        weights: Float[Array, "T W"],
        anchors: Float[Array, "T W"],
        task: Int[Array, ""],
    ) -> Float[Array, ""]:
        """L_reg, times the batch size because L_dyn is summed over the batch.

        `task` counts from 0, so it is the number t − 1 of finished tasks.
        """
        is_old = (jnp.arange(len(weights)) < task)[:, None]
        moved = jnp.where(is_old, weights - anchors, 0.0)
        strength = self.training.batch_size * self.beta / jnp.maximum(task, 1)
        return strength * jnp.vdot(moved, moved)


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
        anchors=jnp.zeros((num_tasks, layout.num_weights)),
        optimizer=init_optimizer(params),
        embedding_optimizer=init_optimizer(embeddings[0]),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: HyperCRL, state: HyperState, task: Int[Array, ""], key: PRNGKeyArray):
    """A new embedding, and the outputs of the hypernetwork as it is for all tasks before."""
    embedding = jax.random.normal(key, state.embeddings[0].shape)
    layout = learner.network.layout(state.spec)
    outputs = learner.hypernet.generate(layout, state.params["hypernet"], state.embeddings)
    is_old = (jnp.arange(len(outputs)) < task)[:, None]
    return state.replace(
        embeddings=state.embeddings.at[task].set(embedding),
        anchors=jnp.where(is_old, outputs, 0.0),
        optimizer=init_optimizer(state.params),
        embedding_optimizer=init_optimizer(embedding),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
    )


@eqx.filter_jit
def _model(learner: HyperCRL, state: HyperState, task: Int[Array, ""]):
    layout, row = learner.network.layout(state.spec), state.embeddings[task][None]
    weights = learner.hypernet.generate(layout, state.params["hypernet"], row)[0]
    return learner.network.model(state.spec, weights, state.normalizers.select(task))


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
        return starting_weights(learner, state, *carry[:2])

    def step(carry, weights, key, progress):
        params, embeddings, optimizer, embedding_optimizer = carry
        rows = sample_rows(key, data.count, training.batch_size)
        batch = (inputs[rows], targets[rows])
        (gradient, slope), (fit, penalty) = gradients_of_losses(
            learner, state, carry, weights, batch, progress
        )
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


def starting_weights(learner: HyperCRL, state: HyperState, params, embeddings):
    """The weights an update starts from: the current task's or, without look-ahead, all tasks'."""
    rows = embeddings[state.task][None] if learner.lookahead else embeddings
    layout = learner.network.layout(state.spec)
    return learner.hypernet.generate(layout, params["hypernet"], rows)


def gradients_of_losses(learner: HyperCRL, state: HyperState, carry, weights, batch, progress):
    """Gradients of L_t in Θ and of L_dyn in e_t, and the two parts of L_t."""
    params, embeddings, optimizer, _ = carry
    spec, task, layout = state.spec, state.task, learner.network.layout(state.spec)
    pull_back = learner.hypernet.pull_back
    fit_and_slopes = jax.value_and_grad(learner.network.loss, argnums=(1, 2))
    penalty_and_slope = jax.value_and_grad(learner.regulariser)

    if not learner.lookahead:  # one pass over Θ serves both
        _, pull = pull_back(layout, params["hypernet"], embeddings)
        fit, (slope, head) = fit_and_slopes(spec, weights[task], params["head"], *batch)
        penalty, slopes = penalty_and_slope(weights, state.anchors, task)
        gradient, embedding_gradients = pull(slopes.at[task].add(slope))
        gradient = {"hypernet": gradient, "head": head}
        return (gradient, embedding_gradients[task]), (fit, penalty)

    _, pull = pull_back(layout, params["hypernet"], embeddings[task][None])
    fit, (slope, head) = fit_and_slopes(spec, weights[0], params["head"], *batch)
    gradient, embedding_gradient = pull(slope[None])
    gradient = {"hypernet": gradient, "head": head}
    ahead = lookahead_point(learner, params, gradient, optimizer, progress)
    weights, pull = pull_back(layout, ahead["hypernet"], embeddings)
    penalty, slopes = penalty_and_slope(weights, state.anchors, task)
    gradient |= {"hypernet": add_gradients(gradient["hypernet"], pull(slopes)[0])}
    return (gradient, embedding_gradient[0]), (fit, penalty)


def lookahead_point(learner: HyperCRL, params, gradient, optimizer, progress):
    """Θ + ΔΘ, with ΔΘ Adam's step on the unclipped gradient of L_dyn alone.

    No gradient flows through the step.
    """
    rate, dense = learner.learning_rate, densify(gradient)
    step, _ = learner.training.adam_step(rate, dense, optimizer, progress)
    return jax.tree.map(jnp.add, params, step)
