"""HyperCRL (Huang et al. 2021): a task-conditioned hypernetwork with an output regulariser.

    L_t   = L_dyn(Θ, e_t) + L_reg(Θ)
    L_reg = β / (t − 1) Σ_{i<t} ‖H_{Θ_{t−1}}(e_i) − H_Θ(e_i)‖²

The outputs H_{Θ_{t−1}}(e_i) are computed once, when a task starts. With look-ahead (von Oswald
et al. 2020) L_reg is evaluated at Θ + ΔΘ, where ΔΘ is the step that Adam would take on L_dyn
alone. The embedding e_t is trained on L_dyn; embeddings of older tasks are frozen.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.heads import get_head
from hypercrl.dynamics.hypernet import Generator, Hypernet
from hypercrl.dynamics.model import Network, dynamics_loss, prepare
from hypercrl.errors import UserError
from hypercrl.learning.adam import adam
from hypercrl.learning.gradients import add_gradients, clip_by_norm, densify
from hypercrl.learning.session import run_updates, shrink
from hypercrl.registry import learners
from hypercrl.types import Learner, Settings, Spec

# A CPU should finish with one block of the hypernetwork's matrix before it takes the next; XLA's
# usual order takes all of them through each part of an update in turn.
DEPTH_FIRST: dict[str, Any] = {
    "compiler_options": {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
}


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


@learners.register("hypercrl")
@dataclass(frozen=True)
class HyperCRL(Learner):
    """The paper's method. Keeps an embedding and a normaliser per task, and no data."""

    network: Network = Network()
    hypernet: Hypernet = Hypernet()
    beta: float = 0.05
    """Strength of the regulariser."""
    lookahead: bool = True
    """Evaluate the regulariser where Adam's next step on the dynamics loss would lead."""
    learning_rate: float = 1e-4
    """Adam's step size for the hypernetwork."""
    embedding_learning_rate: float = 1e-4
    """Adam's step size for the current task's embedding."""
    batch_size: int = 100
    """Transitions in a batch."""
    max_gradient_norm: float = 5.0
    """Gradients are scaled down to this norm."""
    anneal: bool = False
    """Let the step size shrink to nothing in the course of each session."""

    def __post_init__(self):
        rates = (self.learning_rate, self.embedding_learning_rate, self.max_gradient_norm)
        if self.batch_size < 1 or min(rates) <= 0 or self.beta < 0:
            raise UserError(
                "HyperCRL needs a batch_size of at least 1, learning rates and a "
                "max_gradient_norm above 0, and a beta of 0 or more; it was given "
                f"{self.batch_size}, {rates} and {self.beta}."
            )

    @classmethod
    def configure(cls, settings: Settings):
        return cls(
            network=Network.configure(settings),
            hypernet=Hypernet.configure(settings),
            beta=settings.beta,
            lookahead=settings.lookahead,
            learning_rate=settings.hypernet_learning_rate,
            embedding_learning_rate=settings.hypernet_learning_rate,
            batch_size=settings.batch_size,
            anneal=settings.anneal,
        )

    def init(self, spec, num_tasks, *, key):
        layout = self.network.layout(spec)
        params = {
            "hypernet": self.hypernet.generator(layout).init(key=key),
            "head": get_head(self.network.head).init(spec.encoding.num_outputs),
        }
        embeddings = jnp.zeros((num_tasks, self.hypernet.embedding_dim))
        return HyperState(
            params=params,
            embeddings=embeddings,
            anchors=jnp.zeros((num_tasks, layout.num_weights)),
            optimizer=self._adam.init(params),
            embedding_optimizer=self._embedding_adam.init(embeddings[0]),
            normalizers=Normalizer.identity(spec, num_tasks),
            task=jnp.array(0, jnp.int32),
            spec=spec,
        )

    def start_task(self, state, task, *, key):
        embedding = jax.random.normal(key, state.embeddings[0].shape)
        normalizers = state.normalizers.copy(max(task - 1, 0), task)
        return HyperState(
            params=state.params,
            embeddings=state.embeddings.at[task].set(embedding),
            anchors=_anchors(self, state, jnp.array(task, jnp.int32)),
            optimizer=self._adam.init(state.params),
            embedding_optimizer=self._embedding_adam.init(embedding),
            normalizers=normalizers,
            task=jnp.array(task, jnp.int32),
            spec=state.spec,
        )

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

    @property
    def _adam(self):
        return adam(self.learning_rate)

    @property
    def _embedding_adam(self):
        return adam(self.embedding_learning_rate)

    def generator(self, spec: Spec) -> Generator:
        return self.hypernet.generator(self.network.layout(spec))

    def loss(self, weights, head, inputs, targets, spec):
        """L_dyn on one batch, of a network with these weights."""
        layout = self.network.layout(spec)
        return dynamics_loss(self.network, layout, weights, head, inputs, targets)

    def regulariser(self, weights, anchors, task):
        """L_reg, times the batch size because L_dyn is summed over the batch."""
        is_old = (jnp.arange(len(weights)) < task)[:, None]
        moved = jnp.where(is_old, weights - anchors, 0.0)
        return self.batch_size * self.beta / jnp.maximum(task, 1) * jnp.vdot(moved, moved)


@eqx.filter_jit
def _anchors(learner: HyperCRL, state: HyperState, task):
    """Outputs of the current hypernetwork for all tasks before `task`."""
    outputs = learner.generator(state.spec).generate(state.params["hypernet"], state.embeddings)
    return jnp.where((jnp.arange(len(outputs)) < task)[:, None], outputs, 0.0)


@eqx.filter_jit
def _model(learner: HyperCRL, state: HyperState, task):
    generate = learner.generator(state.spec).generate
    weights = generate(state.params["hypernet"], state.embeddings[task][None])[0]
    return learner.network.model(state.spec, weights, state.normalizers.select(task))


@eqx.filter_jit(**DEPTH_FIRST)
def _session(learner: HyperCRL, state: HyperState, data, num_updates, key):
    """S updates of Θ and e_t on the current task's data."""
    spec, task = state.spec, state.task
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    inputs, targets = prepare(spec, normalizer, *data[:3])
    early = learner.generator(spec).generates_early

    def step(loop, key, progress):
        carry, weights = loop
        params, embeddings, optimizer, embedding_optimizer = carry
        if not early:
            weights = starting_weights(learner, state, params, embeddings)
        rows = sample_rows(key, data.count, learner.batch_size)
        batch = (inputs[rows], targets[rows])
        gradients, losses = gradients_of_losses(learner, state, carry, weights, batch, progress)
        fit, penalty = losses
        gradient, slope = densify(clip_by_norm(gradients, learner.max_gradient_norm))
        updates, optimizer = learner._adam.update(gradient, optimizer)
        shift, embedding_optimizer = learner._embedding_adam.update(slope, embedding_optimizer)
        updates, shift = shrink((updates, shift), learner.anneal, progress)
        params = optax.apply_updates(params, updates)
        embeddings = embeddings.at[task].add(shift)
        weights = starting_weights(learner, state, params, embeddings) if early else None
        info = {"loss": fit / learner.batch_size, "regulariser": penalty / learner.batch_size}
        return ((params, embeddings, optimizer, embedding_optimizer), weights), info

    carry = (state.params, state.embeddings, state.optimizer, state.embedding_optimizer)
    weights = starting_weights(learner, state, state.params, state.embeddings) if early else None
    (carry, _), info = run_updates(step, (carry, weights), num_updates, key)
    params, embeddings, optimizer, embedding_optimizer = carry
    normalizers = state.normalizers.replace(task, normalizer)
    new = HyperState(
        params,
        embeddings,
        state.anchors,
        optimizer,
        embedding_optimizer,
        normalizers,
        task,
        spec,
    )
    return new, info


def starting_weights(learner: HyperCRL, state: HyperState, params, embeddings):
    """The weights an update starts from: the current task's or, without look-ahead, all tasks'."""
    rows = embeddings[state.task][None] if learner.lookahead else embeddings
    return learner.generator(state.spec).generate(params["hypernet"], rows)


def gradients_of_losses(learner: HyperCRL, state: HyperState, carry, weights, batch, progress):
    """Gradients of L_t in Θ and of L_dyn in e_t, and the two parts of L_t."""
    params, embeddings, optimizer, _ = carry
    task, generator = state.task, learner.generator(state.spec)
    fit_and_slopes = jax.value_and_grad(learner.loss, argnums=(0, 1))
    penalty_and_slope = jax.value_and_grad(learner.regulariser)

    if not learner.lookahead:  # one pass over Θ serves both
        _, pull = generator.pull_back(params["hypernet"], embeddings)
        fit, (slope, head) = fit_and_slopes(weights[task], params["head"], *batch, state.spec)
        penalty, slopes = penalty_and_slope(weights, state.anchors, task)
        gradient, embedding_gradients = pull(slopes.at[task].add(slope))
        gradient = {"hypernet": gradient, "head": head}
        return (gradient, embedding_gradients[task]), (fit, penalty)

    _, pull = generator.pull_back(params["hypernet"], embeddings[task][None])
    fit, (slope, head) = fit_and_slopes(weights[0], params["head"], *batch, state.spec)
    gradient, embedding_gradient = pull(slope[None])
    gradient = {"hypernet": gradient, "head": head}
    ahead = lookahead_point(learner, params, gradient, optimizer, progress)
    weights, pull = generator.pull_back(ahead["hypernet"], embeddings)
    penalty, slopes = penalty_and_slope(weights, state.anchors, task)
    gradient |= {"hypernet": add_gradients(gradient["hypernet"], pull(slopes)[0])}
    return (gradient, embedding_gradient[0]), (fit, penalty)


def lookahead_point(learner: HyperCRL, params, gradient, optimizer, progress):
    """Θ + ΔΘ, with ΔΘ Adam's step on L_dyn alone; no gradient flows through the step."""
    step, _ = learner._adam.update(densify(gradient), optimizer)
    step = shrink(step, learner.anneal, progress)
    return jax.tree.map(jnp.add, params, step)
