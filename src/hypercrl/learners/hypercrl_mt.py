"""HyperCRL-MT: the hypernetwork as a multi-task oracle.

    L = Σ_{i≤t} L_dyn(H_Θ(e_i); batch of task i)

Huang et al. (2021), appendix: HyperCRL's architecture with all old data, no regulariser, and
the embeddings of old tasks still trainable. It bounds what HyperCRL could reach.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.heads import get_head
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network, dynamics_loss, prepare
from hypercrl.errors import UserError
from hypercrl.learners.baseline import prepare_memory
from hypercrl.learners.multitask import draw_rows, sum_over_old_tasks
from hypercrl.learning.gradients import clip_by_norm
from hypercrl.learning.session import run_updates, shrink
from hypercrl.registry import learners
from hypercrl.types import Learner, Settings, Spec


class OracleState(eqx.Module):
    """Everything that HyperCRL-MT carries from one call to the next."""

    params: Any  # {"hypernet": Θ, "head": the Gaussian head's bounds, "embeddings": [T, E]}
    optimizer: Any
    normalizers: Normalizer
    task: Int[Array, ""]
    spec: Spec = eqx.field(static=True)


@learners.register("hypercrl_mt")
@dataclass(frozen=True)
class HyperCRLMT(Learner):
    """HyperCRL with everything ever seen at hand."""

    memory_fraction: ClassVar[float] = 1.0

    network: Network = Network()
    hypernet: Hypernet = Hypernet()
    learning_rate: float = 1e-4
    """Adam's step size for the hypernetwork and the embeddings."""
    batch_size: int = 100
    """Transitions in a batch; an update takes one from every task so far."""
    max_gradient_norm: float = 5.0
    """Gradients are scaled down to this norm."""
    anneal: bool = False
    """Let the step size shrink to nothing in the course of each session."""

    def __post_init__(self):
        if self.batch_size < 1 or self.learning_rate <= 0 or self.max_gradient_norm <= 0:
            raise UserError(
                "HyperCRLMT needs a batch_size of at least 1, and a learning_rate and a "
                f"max_gradient_norm above 0; it was given {self.batch_size}, "
                f"{self.learning_rate} and {self.max_gradient_norm}."
            )

    @classmethod
    def configure(cls, settings: Settings):
        return cls(
            network=Network.configure(settings),
            hypernet=Hypernet.configure(settings),
            learning_rate=settings.hypernet_learning_rate,
            batch_size=settings.batch_size,
            anneal=settings.anneal,
        )

    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32), key)

    def update(self, state, data, memory, *, num_updates, key):
        if memory is None:
            raise UserError("HyperCRLMT replays old transitions, but was given no memory of them.")
        return _session(self, state, data, memory, jnp.array(num_updates, jnp.int32), key)

    def end_task(self, state, data, *, key):
        return state

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        return sum(x.size for x in jax.tree.leaves(state.params))

    def bytes_per_task(self, state):
        return state.params["embeddings"][0].nbytes + state.normalizers.bytes_per_task

    def embeddings(self, state):
        return state.params["embeddings"]

    def generate(self, params, spec: Spec) -> Float[Array, "T W"]:
        """The weights of every task from one pass over Θ."""
        generator = self.hypernet.generator(self.network.layout(spec))
        return generator.generate(params["hypernet"], params["embeddings"])

    @property
    def _adam(self):
        return optax.adam(self.learning_rate)


@eqx.filter_jit
def _init(learner: HyperCRLMT, spec: Spec, num_tasks: int, key):
    params = {
        "hypernet": learner.hypernet.generator(learner.network.layout(spec)).init(key=key),
        "head": get_head(learner.network.head).init(spec.encoding.num_outputs),
        "embeddings": jnp.zeros((num_tasks, learner.hypernet.embedding_dim)),
    }
    return OracleState(
        params=params,
        optimizer=learner._adam.init(params),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: HyperCRLMT, state: OracleState, task, key):
    embeddings = state.params["embeddings"]
    drawn = jax.random.normal(key, embeddings[0].shape)
    params = state.params | {"embeddings": embeddings.at[task].set(drawn)}
    return OracleState(
        params=params,
        optimizer=learner._adam.init(params),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
        spec=state.spec,
    )


@eqx.filter_jit
def _model(learner: HyperCRLMT, state: OracleState, task):
    weights = learner.generate(state.params, state.spec)[task]
    return learner.network.model(state.spec, weights, state.normalizers.select(task))


@eqx.filter_jit
def _session(learner: HyperCRLMT, state: OracleState, data, memory, num_updates, key):
    """S updates of Θ and of all embeddings so far, on a batch from every task so far."""
    spec, task = state.spec, state.task
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    normalizers = state.normalizers.replace(task, normalizer)
    inputs, targets = prepare(spec, normalizer, *data[:3])
    kept = prepare_memory(spec, normalizers, memory)
    layout = learner.network.layout(spec)

    def fit(params, weights, x, y):
        return dynamics_loss(learner.network, layout, weights, params["head"], x, y)

    def loss(params, key):
        row_key, memory_key = jax.random.split(key)
        weights = learner.generate(params, spec)

        def one_task(i, row):
            rows = draw_rows(jax.random.fold_in(memory_key, i), kept.counts[i], learner.batch_size)
            return fit(params, row, kept.inputs[i, rows], kept.targets[i, rows])

        rows = sample_rows(row_key, data.count, learner.batch_size)
        new = fit(params, weights[task], inputs[rows], targets[rows])
        old = sum_over_old_tasks(one_task, task, weights)
        return new + old, (new, old)

    def step(carry, key, progress):
        params, optimizer = carry
        gradients, (new, old) = jax.grad(loss, has_aux=True)(params, key)
        gradients = clip_by_norm(gradients, learner.max_gradient_norm)
        updates, optimizer = learner._adam.update(gradients, optimizer)
        updates = shrink(updates, learner.anneal, progress)
        info = {"loss": new / learner.batch_size, "regulariser": old / learner.batch_size}
        return (optax.apply_updates(params, updates), optimizer), info

    carry, info = run_updates(step, (state.params, state.optimizer), num_updates, key)
    return OracleState(*carry, normalizers, task, spec), info
