"""What the baselines share: the target network trained directly, one output head per task.

Huang et al. (2021), section V-D: all baselines resemble the target network, with a trunk that
every task shares and a head of its own for each. A baseline is this class with some of its
hooks filled in: a penalty (EWC, SI), a watch over the steps taken (SI), or a loss on kept
transitions (coreset, multi-task).
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.data.buffer import sample_rows
from hypercrl.data.normalizer import Normalizer, fit_normalizer
from hypercrl.dynamics.fit import clip_by_norm, run_updates
from hypercrl.dynamics.heads import get_head
from hypercrl.dynamics.model import Network, dynamics_loss, prepare
from hypercrl.types import Learner, Memory, Settings, Spec, Transitions

Params = dict[str, Any]


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

    @classmethod
    def configure(cls, settings: Settings) -> Self:
        return cls(
            network=Network.configure(settings),
            learning_rate=settings.baseline_learning_rate,
            batch_size=settings.batch_size,
        )

    # Hooks

    def init_params(self, spec: Spec, num_tasks: int, *, key: PRNGKeyArray) -> Params:
        """A trunk, and a head for each task, all drawn now so that tasks do not interact."""
        layout = self.network.layout(spec)
        trunk_key, *head_keys = jax.random.split(key, num_tasks + 1)
        trunk = layout.init(key=trunk_key)[: -layout.num_head_weights]
        heads = [layout.init(key=k)[-layout.num_head_weights :] for k in head_keys]
        bounds = get_head(self.network.head).init(spec.encoding.num_outputs)
        bounds = jax.tree.map(lambda x: jnp.tile(x, (num_tasks, 1)), bounds)
        return {"trunk": trunk, "heads": jnp.stack(heads), "bounds": bounds}

    def weights(self, params: Params, task: Int[Array, ""]) -> Float[Array, "W"]:
        """The flat weight vector of one task."""
        return jnp.concatenate([params["trunk"], params["heads"][task]])

    def init_extra(self, params: Params, num_tasks: int) -> Any:
        """State of the method's own."""
        return ()

    def penalty(self, params: Params, extra: Any, task: Int[Array, ""]) -> Float[Array, ""]:
        """A regulariser, on the scale of the summed batch loss."""
        return jnp.zeros(())

    def memory_loss(
        self, params: Params, memory: Any, task: Int[Array, ""], key: PRNGKeyArray
    ) -> Float[Array, ""]:
        """A loss on kept transitions; `memory` holds prepared inputs, targets and counts."""
        return jnp.zeros(())

    def watch(self, extra: Any, gradients: Params, before: Params, after: Params) -> Any:
        """Look at one step: the gradient of L_dyn and where it led."""
        return extra

    # The interface, the same for every baseline

    def init(self, spec, num_tasks, *, key):
        params = self.init_params(spec, num_tasks, key=key)
        return BaselineState(
            params=params,
            optimizer=self._adam.init(params),
            normalizers=Normalizer.identity(spec, num_tasks),
            task=jnp.array(0, jnp.int32),
            extra=self.init_extra(params, num_tasks),
            spec=spec,
        )

    def start_task(self, state, task, *, key):
        return state.replace(
            optimizer=self._adam.init(state.params),
            normalizers=state.normalizers.copy(max(task - 1, 0), task),
            task=jnp.array(task, jnp.int32),
        )

    def update(self, state, data, memory, *, num_updates, key):
        return _session(self, state, data, memory, jnp.array(num_updates, jnp.int32), key)

    def end_task(self, state, data, *, key):
        return state

    def predict(self, state, task):
        return _model(self, state, jnp.array(task, jnp.int32))

    def num_parameters(self, state):
        return sum(x.size for x in jax.tree.leaves(state.params))

    def bytes_per_task(self, state):
        own = (state.params["heads"], state.params["bounds"])
        return sum(x[0].nbytes for x in jax.tree.leaves(own)) + state.normalizers.bytes_per_task

    def loss(self, params, task, inputs, targets, spec):
        """L_dyn of one task on one batch."""
        layout = self.network.layout(spec)
        bounds = jax.tree.map(lambda x: x[task], params["bounds"])
        return dynamics_loss(
            self.network, layout, self.weights(params, task), bounds, inputs, targets
        )

    @property
    def _adam(self):
        return optax.adam(self.learning_rate)


@eqx.filter_jit
def _model(learner: BaselineLearner, state: BaselineState, task):
    weights = learner.weights(state.params, task)
    return learner.network.model(state.spec, weights, state.normalizers.select(task))


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
    kept = None if memory is None else prepare_memory(spec, normalizers, memory)

    def total_loss(params, extra, batch, key):
        fit = learner.loss(params, task, *batch, spec)
        old = learner.penalty(params, extra, task)
        if kept is not None:
            old += learner.memory_loss(params, kept, task, key)
        return fit + old, (fit, old)

    def step(carry, key):
        params, optimizer, extra = carry
        row_key, memory_key = jax.random.split(key)
        rows = sample_rows(row_key, data.count, learner.batch_size)
        batch = (inputs[rows], targets[rows])
        gradients, (fit, old) = jax.grad(total_loss, has_aux=True)(params, extra, batch, memory_key)
        gradients = clip_by_norm(gradients, learner.max_gradient_norm)
        updates, optimizer = learner._adam.update(gradients, optimizer)
        after = optax.apply_updates(params, updates)
        extra = learner.watch(extra, gradients, params, after)
        info = {"loss": fit / learner.batch_size, "regulariser": old / learner.batch_size}
        return (after, optimizer, extra), info

    carry, info = run_updates(step, (state.params, state.optimizer, state.extra), num_updates, key)
    params, optimizer, extra = carry
    new = state.replace(params=params, optimizer=optimizer, extra=extra, normalizers=normalizers)
    return new, info


def prepare_memory(spec: Spec, normalizers: Normalizer, memory: Memory):
    """Inputs and targets of kept transitions, each task under its own normaliser."""
    inputs, targets = jax.vmap(lambda n, s, a, y: prepare(spec, n, s, a, y))(
        normalizers, memory.states, memory.actions, memory.next_states
    )
    return inputs, targets, memory.counts
