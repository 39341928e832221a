"""Elastic weight consolidation (Kirkpatrick et al. 2017): old weights held by their curvature.

    L_old = λ/2 Σ_{i<t} Σ_k F_ik (θ_k − θ*_ik)²
    F_i   = mean over the data of task i of (∂ℓ/∂θ)²,   ℓ one transition's loss

F_i is the diagonal of the empirical Fisher information (ℓ is a negative log-likelihood; for
the point head that of a Gaussian with fixed variance), taken at θ*_i when task i ends, one
anchor and one Fisher a task. The sum over i is evaluated as a single quadratic, equal up to a
constant. As in van de Ven and Tolias (2019), whose implementation the
paper used, λ weighs against the *mean* loss of a sample; here L_dyn is summed over the batch,
so L_old is multiplied by the batch size. Only the trunk needs it: an old task's head has
neither data nor gradient once the task is over.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hypercrl.data.buffer import num_training, training_row
from hypercrl.dynamics.model import prepare
from hypercrl.errors import UserError
from hypercrl.learners.baseline import BaselineLearner, BaselineState
from hypercrl.registry import learners
from hypercrl.types import Transitions


@learners.register("ewc")
@dataclass(frozen=True)
class EWC(BaselineLearner):
    """The baseline with a quadratic spring to every old task's trunk."""

    strength: float = 10_000.0
    """λ, the paper's."""

    def __post_init__(self):
        super().__post_init__()
        if self.strength < 0:
            raise UserError(f"EWC needs a strength of 0 or more and not {self.strength}.")

    def init_extra(self, params, num_tasks):
        trunk = params.shared["trunk"]
        rows = jnp.zeros((num_tasks, trunk.size))
        zeros = jnp.zeros_like(trunk)
        return {"fisher": rows, "anchor": rows, "stiffness": zeros, "centre": zeros}

    def start_extra(self, extra, params):
        """The springs to all old tasks add up to one: stiffness Σ F_i, its rest the mean θ*."""
        fisher, anchor = extra["fisher"], extra["anchor"]
        stiffness = fisher.sum(0)
        centre = (fisher * anchor).sum(0) / jnp.where(stiffness > 0, stiffness, 1.0)
        return extra | {"stiffness": stiffness, "centre": centre}

    def penalty(self, own, extra):
        distance = (own.shared["trunk"] - extra["centre"]) ** 2
        return self.batch_size * self.strength / 2 * jnp.vdot(extra["stiffness"], distance)

    def end_task(self, state, data, *, key):
        trunk, fisher = state.params.shared["trunk"], fisher_diagonal(self, state, data)
        rows = {
            "fisher": state.extra["fisher"].at[state.task].set(fisher),
            "anchor": state.extra["anchor"].at[state.task].set(trunk),
        }
        return state.replace(extra=state.extra | rows)

    def bytes_per_task(self, state):
        rows = (state.extra["fisher"][0], state.extra["anchor"][0])
        return super().bytes_per_task(state) + sum(x.nbytes for x in rows)


@eqx.filter_jit
def fisher_diagonal(learner: EWC, state: BaselineState, data: Transitions) -> Float[Array, "trunk"]:
    """The mean squared gradient of a training transition's loss in the trunk's weights."""
    spec, own = state.spec, state.params.of(state.task)
    inputs, targets = prepare(spec, state.normalizers.select(state.task), *data[:3])
    count = num_training(data.count)

    def sample_loss(shared, x, y):
        return learner.errors(own._replace(shared=shared), None, x[None], y[None], spec)[0]

    gradients = jax.vmap(jax.grad(sample_loss), in_axes=(None, 0, 0))

    def add_batch(i, total):
        samples = i * learner.batch_size + jnp.arange(learner.batch_size)
        rows = jnp.minimum(training_row(samples), len(inputs) - 1)
        gradient = gradients(own.shared, inputs[rows], targets[rows])["trunk"]
        return total + jnp.where((samples < count)[:, None], gradient**2, 0.0).sum(0)

    num_batches = -(-count // learner.batch_size)
    total = jax.lax.fori_loop(0, num_batches, add_batch, jnp.zeros_like(own.shared["trunk"]))
    return total / jnp.maximum(count, 1)
