"""HyperCRL-MT: the hypernetwork as a multi-task oracle.

    L = Σ_{i≤t} L_dyn(H_Θ(e_i); batch of task i)

Huang et al. (2021), appendix: HyperCRL's architecture with all old data, no regulariser, and
the embeddings of old tasks still trainable. It bounds what HyperCRL could reach.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.checks import above
from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network, prepare
from hypercrl.errors import UserError
from hypercrl.learning.rehearsal import draw_rows, prepare_memory, sum_over_old_tasks
from hypercrl.learning.session import compiled_session, run_updates
from hypercrl.learning.training import Training, init_optimizer
from hypercrl.registry import learners
from hypercrl.types import Learner, Memory, Spec, Transitions


class OracleState(eqx.Module):
    """Everything that HyperCRL-MT carries from one call to the next."""

    params: Any  # {"hypernet": Θ, "head": the Gaussian head's bounds, "embeddings": [T, E]}
    optimizer: Any
    normalizers: Normalizer
    task: Int[Array, ""]
    spec: Spec = eqx.field(static=True)

    def replace(self, **changes: Any) -> "OracleState":
        return replace(self, **changes)


@learners.register("hypercrl_mt")
@dataclass(frozen=True)
class HyperCRLMT(Learner):
    """HyperCRL with everything ever seen at hand."""

    memory_share: ClassVar[float] = 1.0

    network: Network = Network()
    hypernet: Hypernet = FullHypernet()
    training: Training = Training()
    learning_rate: float = 1e-4
    """Adam's step size for the hypernetwork and the embeddings."""

    def __post_init__(self):
        above(self, 0, "learning_rate")

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
        begun = state.params["embeddings"][: int(state.task) + 1]
        return sum(x.size for x in jax.tree.leaves(state.params | {"embeddings": begun}))

    def bytes_per_task(self, state):
        return state.params["embeddings"][0].nbytes + state.normalizers.bytes_per_task

    def embeddings(self, state):
        return state.params["embeddings"]

    def generate(self, params: Any, spec: Spec) -> Float[Array, "T W"]:
        """The weights of every task from one pass over Θ."""
        layout = self.network.layout(spec)
        return self.hypernet.generate(layout, params["hypernet"], params["embeddings"])


@eqx.filter_jit
def _init(learner: HyperCRLMT, spec: Spec, num_tasks: int, key: PRNGKeyArray):
    params = {
        "hypernet": learner.hypernet.init(learner.network.layout(spec), key=key),
        "head": HEADS[learner.network.head].init(spec.encoding.num_outputs),
        "embeddings": jnp.zeros((num_tasks, learner.hypernet.embedding_dim)),
    }
    return OracleState(
        params=params,
        optimizer=init_optimizer(params),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: HyperCRLMT, state: OracleState, task: Int[Array, ""], key: PRNGKeyArray):
    embeddings = state.params["embeddings"]
    drawn = jax.random.normal(key, embeddings[0].shape)
    params = state.params | {"embeddings": embeddings.at[task].set(drawn)}
    return state.replace(
        params=params,
        optimizer=init_optimizer(params),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
    )


@eqx.filter_jit
def _model(learner: HyperCRLMT, state: OracleState, task: Int[Array, ""]):
    weights = learner.generate(state.params, state.spec)[task]
    normalizer = state.normalizers.select(task)
    return learner.network.model(state.spec, weights, state.params["head"], normalizer)


@compiled_session
def _session(
    learner: HyperCRLMT,
    state: OracleState,
    data: Transitions,
    memory: Memory,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
):
    """S updates of Θ and of all embeddings so far, on a batch from every task so far."""
    spec, task, training = state.spec, state.task, learner.training
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    normalizers = state.normalizers.replace(task, normalizer)
    inputs, targets = prepare(spec, normalizer, *data[:3])
    kept = prepare_memory(spec, normalizers, memory)

    def loss(params, key):
        row_key, memory_key = jax.random.split(key)
        weights = learner.generate(params, spec)

        def one_task(i, row):
            rows = draw_rows(jax.random.fold_in(memory_key, i), kept.counts[i], training.batch_size)
            batch = (kept.inputs[i, rows], kept.targets[i, rows])
            return learner.network.loss(spec, row, params["head"], *batch)

        rows = sample_rows(row_key, data.count, training.batch_size)
        batch = (inputs[rows], targets[rows])
        new = learner.network.loss(spec, weights[task], params["head"], *batch)
        old = sum_over_old_tasks(one_task, task, weights)
        return new + old, (new, old)

    def step(carry, key, progress):
        params, optimizer = carry
        gradients, (new, old) = jax.grad(loss, has_aux=True)(params, key)
        carry = training.descend(learner.learning_rate, params, gradients, optimizer, progress)
        info = {"loss": new / training.batch_size, "regulariser": old / training.batch_size}
        return carry, info

    carry = (state.params, state.optimizer)
    (params, optimizer), info = run_updates(step, carry, num_updates, key)
    return state.replace(params=params, optimizer=optimizer, normalizers=normalizers), info
