"""What the baselines share: the target network trained directly, task after task.

Huang et al. (2021), section V-D. A baseline is composed of three parts: an *architecture* (what
tasks share and what each has of its own), a *protection* of what is shared (EWC, SI) and a
*rehearsal* of kept transitions (coreset, multi-task).

An update follows ∇L_dyn + ∇L_old, clipped, with Adam. A method without a rehearsal trains what
the current task uses; one that replays old tasks trains their own weights as well.
"""

import abc
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from hypercrl.checks import above
from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.architecture import Architecture, Params
from hypercrl.dynamics.model import DynamicsModel, Network, prepare
from hypercrl.errors import UserError
from hypercrl.learning.protection import FinishedTask, Protection, Unprotected
from hypercrl.learning.rehearsal import Rehearsal, prepare_memory
from hypercrl.learning.session import compiled_session, run_updates
from hypercrl.learning.training import Training, init_optimizer
from hypercrl.types import Learner, Memory, Spec, Transitions


class Parts(NamedTuple):
    """What a baseline is made of."""

    architecture: Architecture
    protection: Protection = Unprotected()
    rehearsal: Rehearsal | None = None

    def trained(self, params: Params, task: Int[Array, ""] | int) -> Params:
        """The parameters that a session on `task` trains: all if old tasks are revisited."""
        return params if self.rehearsal else params.of(task)


class BaselineState(eqx.Module):
    """Everything that a baseline carries from one call to the next."""

    params: Params
    optimizer: Any
    normalizers: Normalizer
    task: Int[Array, ""]
    protection: Any  # the protection's own state
    spec: Spec = eqx.field(static=True)

    def replace(self, **changes: Any) -> "BaselineState":
        return replace(self, **changes)


@dataclass(frozen=True)
class BaselineLearner(Learner):
    """The target network learnt with Adam; a method names its parts."""

    network: Network = Network()
    training: Training = Training()
    learning_rate: float = 1e-3
    """Adam's step size."""

    def __post_init__(self):
        above(self, 0, "learning_rate")

    @property
    @abc.abstractmethod
    def parts(self) -> Parts:
        """What the method is composed of."""

    @final
    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    @final
    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32))

    @final
    def update(self, state, data, memory, *, num_updates, key):
        if self.parts.rehearsal is None:
            memory = None
        elif memory is None:
            raise UserError(
                f"{type(self).__name__} replays old transitions, but was given no memory of them."
            )
        return _session(self, state, data, memory, jnp.array(num_updates, jnp.int32), key)

    @final
    def end_task(self, state, data, *, key):
        return _end_task(self, state, data)

    @final
    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    @final
    def num_parameters(self, state):
        rows = jax.tree.leaves((state.params.tasks, state.params.bounds))
        shared = sum(x.size for x in jax.tree.leaves(state.params.shared))
        return shared + sum(x[0].size for x in rows) * (int(state.task) + 1)

    @final
    def bytes_per_task(self, state):
        own = [state.params.tasks, state.normalizers]
        if self.parts.rehearsal:  # a variance is asked for in training only
            own.append(state.params.bounds)
        return sum(x[0].nbytes for x in jax.tree.leaves(own))


@eqx.filter_jit
def _init(learner: BaselineLearner, spec: Spec, num_tasks: int, key: PRNGKeyArray):
    parts = learner.parts
    params = parts.architecture.init(spec, num_tasks, key=key)
    return BaselineState(
        params=params,
        optimizer=init_optimizer(parts.trained(params, 0)),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        protection=parts.protection.init(params.shared),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: BaselineLearner, state: BaselineState, task: Int[Array, ""]):
    parts = learner.parts
    return state.replace(
        optimizer=init_optimizer(parts.trained(state.params, task)),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
        protection=parts.protection.start(state.protection, state.params.shared),
    )


@eqx.filter_jit
def _model(learner: BaselineLearner, state: BaselineState, task: Int[Array, ""]):
    architecture, params = learner.parts.architecture, state.params
    others = architecture.others(params, task)
    predictor = architecture.predictor(state.spec, params.of(task), others)
    return DynamicsModel(predictor, state.normalizers.select(task), state.spec)


@compiled_session
def _session(
    learner: BaselineLearner,
    state: BaselineState,
    data: Transitions,
    memory: Memory | None,
    num_updates: Int[Array, ""],
    key: PRNGKeyArray,
):
    """S updates on the current task's data, and on what the method keeps of older ones."""
    spec, task, training = state.spec, state.task, learner.training
    architecture, protection, rehearsal = learner.parts
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    normalizers = state.normalizers.replace(task, normalizer)
    inputs, targets = prepare(spec, normalizer, *data[:3])
    others = architecture.others(state.params, task)
    kept = None if memory is None else prepare_memory(spec, normalizers, memory)

    def new_loss(trained, rows):
        own = trained.of(task) if rehearsal else trained
        return architecture.loss(spec, own, others, inputs[rows], targets[rows])

    def old_loss(trained, guard, key):
        loss = protection.penalty(guard, trained.shared)
        if rehearsal and kept:
            loss += rehearsal.loss(architecture, spec, trained, kept, task, key)
        return loss

    def step(carry, key, progress):
        before, optimizer, guard = carry
        row_key, memory_key = jax.random.split(key)
        rows = sample_rows(row_key, data.count, training.batch_size)
        new, gradient = jax.value_and_grad(new_loss)(before, rows)
        old, pull = jax.value_and_grad(old_loss)(before, guard, memory_key)
        total = jax.tree.map(jnp.add, gradient, pull)
        after, optimizer = training.descend(
            learner.learning_rate, before, total, optimizer, progress
        )
        guard = protection.watch(guard, gradient.shared, before.shared, after.shared)
        info = {"loss": new / training.batch_size, "regulariser": old / training.batch_size}
        return (after, optimizer, guard), info

    carry = (learner.parts.trained(state.params, task), state.optimizer, state.protection)
    (trained, optimizer, guard), info = run_updates(step, carry, num_updates, key)
    params = trained if rehearsal else state.params.put(task, trained)
    new = state.replace(
        params=params, optimizer=optimizer, protection=guard, normalizers=normalizers
    )
    return new, info


@eqx.filter_jit
def _end_task(learner: BaselineLearner, state: BaselineState, data: Transitions):
    spec, own = state.spec, state.params.of(state.task)
    architecture, protection, _ = learner.parts
    others = architecture.others(state.params, state.task)

    def negative_log_likelihood(shared, x, y):
        changed = own._replace(shared=shared)
        return architecture.negative_log_likelihood(spec, changed, others, x, y)

    inputs, targets = prepare(spec, state.normalizers.select(state.task), *data[:3])
    finished = FinishedTask(inputs, targets, data.count, negative_log_likelihood)
    return state.replace(protection=protection.end(state.protection, own.shared, finished))
