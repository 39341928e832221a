"""What the baselines share: the target network trained directly, one output head per task.

Huang et al. (2021), section V-D: all baselines resemble the target network, with a trunk that
every task shares and a head of its own for each. A baseline is this class with some of its
hooks filled in: a penalty (EWC, SI), a watch over the steps taken (SI), a loss on kept
transitions (coreset, multi-task), or another network (single, PNN).

An update follows ∇L_dyn + ∇L_old, clipped, with Adam. A method without a memory trains what
the current task uses; one that replays old tasks trains their heads as well.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.heads import get_head
from hypercrl.dynamics.mlp import Layers, Layout
from hypercrl.dynamics.model import DynamicsModel, Network, prepare
from hypercrl.errors import UserError
from hypercrl.learning.gradients import clip_by_norm
from hypercrl.learning.session import run_updates, shrink
from hypercrl.types import Learner, Memory, Model, Settings, Spec, Transitions


class Params(NamedTuple):
    """What the tasks share, and what each has of its own: arrays with one row a task."""

    shared: Any
    tasks: Any

    def of(self, task: Int[Array, ""] | int) -> "Params":
        """What one task's network is made of."""
        return Params(self.shared, jax.tree.map(lambda x: x[task], self.tasks))

    def put(self, task: Int[Array, ""] | int, own: "Params") -> "Params":
        """These parameters with one task's part replaced."""
        rows = jax.tree.map(lambda x, y: x.at[task].set(y), self.tasks, own.tasks)
        return Params(own.shared, rows)


class Kept(NamedTuple):
    """Old transitions ready for the network, each task under its own normaliser."""

    inputs: Float[Array, "T C inputs"]
    targets: Float[Array, "T C outputs"]
    counts: Int[Array, "T"]


class BaselineState(eqx.Module):
    """Parameters, optimiser, normalisers and whatever a method adds in `extra`."""

    params: Params
    optimizer: Any
    normalizers: Normalizer
    task: Int[Array, ""]
    extra: Any
    spec: Spec = eqx.field(static=True)

    def replace(self, **changes) -> Self:
        return replace(self, **changes)


@dataclass(frozen=True)
class BaselineLearner(Learner):
    """A multi-head network learnt with Adam; the hooks do nothing unless a method says more."""

    network: Network = Network()
    learning_rate: float = 1e-3
    """Adam's step size."""
    batch_size: int = 100
    """Transitions in a batch."""
    max_gradient_norm: float = 5.0
    """Gradients are scaled down to this norm."""
    anneal: bool = False
    """Let the step size shrink to nothing in the course of each session."""

    def __post_init__(self):
        if self.batch_size < 1 or self.learning_rate <= 0 or self.max_gradient_norm <= 0:
            raise UserError(
                f"{type(self).__name__} needs a batch_size of at least 1, and a learning_rate and "
                f"a max_gradient_norm above 0; it was given {self.batch_size}, "
                f"{self.learning_rate} and {self.max_gradient_norm}."
            )

    @classmethod
    def configure(cls, settings: Settings) -> Self:
        return cls(
            network=Network.configure(settings),
            learning_rate=settings.baseline_learning_rate,
            batch_size=settings.batch_size,
            anneal=settings.anneal,
        )

    # The network

    def init_params(self, spec: Spec, num_tasks: int, *, key: PRNGKeyArray) -> Params:
        """A trunk, and a head for each task, all drawn now so that tasks do not interact."""
        layout = self.network.layout(spec)
        networks = jax.vmap(lambda k: layout.init(key=k))(jax.random.split(key, num_tasks))
        trunk, heads = jnp.split(networks, [layout.num_weights - layout.num_head_weights], axis=1)
        tasks = {"head": heads, "bounds": self.init_bounds(spec, num_tasks)}
        return Params({"trunk": trunk[0]}, tasks)

    def init_bounds(self, spec: Spec, num_tasks: int) -> dict[str, Float[Array, "T outputs"]]:
        """The Gaussian head's bounds, one row a task."""
        bounds = get_head(self.network.head).init(spec.encoding.num_outputs)
        return jax.tree.map(lambda x: jnp.tile(x, (num_tasks, 1)), bounds)

    def layers(self, own: Params, spec: Spec) -> Layers:
        """The layers of one task's network."""
        sizes = self.network.layout(spec).sizes
        trunk = Layout(sizes[:-1]).unflatten(own.shared["trunk"])
        return trunk + Layout(sizes[-2:]).unflatten(own.tasks["head"])

    def frozen(self, params: Params, task: Int[Array, ""]) -> Any:
        """What the network of `task` reads of other tasks and never trains."""
        return None

    def forward(
        self, own: Params, frozen: Any, inputs: Float[Array, "B inputs"], spec: Spec
    ) -> Float[Array, "B raw"]:
        """The raw outputs of one task's network."""
        return self.network.apply(self.layers(own, spec), inputs)

    def model(self, own: Params, frozen: Any, normalizer: Normalizer, spec: Spec) -> Model:
        """The same network as a step function for the planner."""
        return DynamicsModel(self.layers(own, spec), normalizer, spec, self.network)

    # What a method adds

    def init_extra(self, params: Params, num_tasks: int) -> Any:
        """State of the method's own."""
        return ()

    def start_extra(self, extra: Any, params: Params) -> Any:
        """The method's own state when a task starts."""
        return extra

    def penalty(self, own: Params, extra: Any) -> Float[Array, ""]:
        """A regulariser, on the scale of the summed batch loss."""
        return jnp.zeros(())

    def memory_loss(
        self, params: Params, kept: Kept, task: Int[Array, ""], spec: Spec, key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """A loss on old transitions, on the scale of the summed batch loss."""
        return jnp.zeros(())

    def watch(self, extra: Any, gradient: Params, before: Params, after: Params) -> Any:
        """Look at one step: the gradient of L_dyn alone, and where the step led."""
        return extra

    # The interface, the same for every baseline

    def init(self, spec, num_tasks, *, key):
        return _init(self, spec, num_tasks, key)

    def start_task(self, state, task, *, key):
        return _start_task(self, state, jnp.array(task, jnp.int32))

    def update(self, state, data, memory, *, num_updates, key):
        if self.replays and memory is None:
            raise UserError(
                f"{type(self).__name__} replays old transitions, but was given no memory of them."
            )
        memory = memory if self.replays else None
        return _session(self, state, data, memory, jnp.array(num_updates, jnp.int32), key)

    def end_task(self, state, data, *, key):
        return state

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        return sum(x.size for x in jax.tree.leaves(state.params))

    def bytes_per_task(self, state):
        own = (state.params.tasks, state.normalizers)
        return sum(x[0].nbytes for x in jax.tree.leaves(own))

    # Losses

    @property
    def replays(self) -> bool:
        """Whether old tasks are trained along with the current one."""
        return self.memory_fraction > 0

    def trained(self, params: Params, task: Int[Array, ""] | int) -> Params:
        """The parameters that a session on `task` trains."""
        return params if self.replays else params.of(task)

    def errors(self, own: Params, frozen: Any, inputs, targets, spec: Spec) -> Float[Array, "B"]:
        """Each sample's loss, divided by the number of outputs."""
        raw = self.forward(own, frozen, inputs, spec)
        loss = jax.vmap(get_head(self.network.head).loss, in_axes=(None, 0, 0))
        return loss(own.tasks["bounds"], raw, targets)

    def loss(self, own: Params, frozen: Any, inputs, targets, spec: Spec) -> Float[Array, ""]:
        """L_dyn of one task on one batch, summed over the batch."""
        penalty = get_head(self.network.head).penalty(own.tasks["bounds"])
        return self.errors(own, frozen, inputs, targets, spec).sum() + penalty

    @property
    def _adam(self):
        return optax.adam(self.learning_rate)


@eqx.filter_jit
def _init(learner: BaselineLearner, spec: Spec, num_tasks: int, key):
    params = learner.init_params(spec, num_tasks, key=key)
    return BaselineState(
        params=params,
        optimizer=learner._adam.init(learner.trained(params, 0)),
        normalizers=Normalizer.identity(spec, num_tasks),
        task=jnp.array(0, jnp.int32),
        extra=learner.init_extra(params, num_tasks),
        spec=spec,
    )


@eqx.filter_jit
def _start_task(learner: BaselineLearner, state: BaselineState, task):
    return state.replace(
        optimizer=learner._adam.init(learner.trained(state.params, task)),
        normalizers=state.normalizers.copy(jnp.maximum(task - 1, 0), task),
        task=task,
        extra=learner.start_extra(state.extra, state.params),
    )


@eqx.filter_jit
def _model(learner: BaselineLearner, state: BaselineState, task):
    own, frozen = state.params.of(task), learner.frozen(state.params, task)
    return learner.model(own, frozen, state.normalizers.select(task), state.spec)


@eqx.filter_jit
def _session(
    learner: BaselineLearner,
    state: BaselineState,
    data: Transitions,
    memory: Memory | None,
    num_updates,
    key,
):
    """S updates on the current task's data, and on what the method keeps of older ones."""
    spec, task = state.spec, state.task
    normalizer = fit_normalizer(spec, data, learner.network.scale_targets)
    normalizers = state.normalizers.replace(task, normalizer)
    inputs, targets = prepare(spec, normalizer, *data[:3])
    frozen = learner.frozen(state.params, task)
    kept = None if memory is None else prepare_memory(spec, normalizers, memory)

    def own(trained) -> Params:
        return trained.of(task) if learner.replays else trained

    def new_loss(trained, rows):
        return learner.loss(own(trained), frozen, inputs[rows], targets[rows], spec)

    def old_loss(trained, extra, key):
        loss = learner.penalty(own(trained), extra)
        return loss if kept is None else loss + learner.memory_loss(trained, kept, task, spec, key)

    def step(carry, key, progress):
        before, optimizer, extra = carry
        row_key, memory_key = jax.random.split(key)
        rows = sample_rows(row_key, data.count, learner.batch_size)
        new, gradient = jax.value_and_grad(new_loss)(before, rows)
        old, pull = jax.value_and_grad(old_loss)(before, extra, memory_key)
        total = jax.tree.map(jnp.add, gradient, pull)
        total = clip_by_norm(total, learner.max_gradient_norm)
        updates, optimizer = learner._adam.update(total, optimizer)
        updates = shrink(updates, learner.anneal, progress)
        after: Any = optax.apply_updates(before, updates)
        extra = learner.watch(extra, gradient, before, after)
        info = {"loss": new / learner.batch_size, "regulariser": old / learner.batch_size}
        return (after, optimizer, extra), info

    carry = (learner.trained(state.params, task), state.optimizer, state.extra)
    carry, info = run_updates(step, carry, num_updates, key)
    trained, optimizer, extra = carry
    params = trained if learner.replays else state.params.put(task, trained)
    new = state.replace(params=params, optimizer=optimizer, extra=extra, normalizers=normalizers)
    return new, info


def prepare_memory(spec: Spec, normalizers: Normalizer, memory: Memory) -> Kept:
    """Inputs and targets of old transitions, each task under its own normaliser."""
    inputs, targets = jax.vmap(lambda n, s, a, y: prepare(spec, n, s, a, y))(
        normalizers, memory.states, memory.actions, memory.next_states
    )
    return Kept(inputs, targets, memory.counts)
