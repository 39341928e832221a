"""Elastic weight consolidation (Kirkpatrick et al. 2017): old weights held by their curvature.

    L_old = λ/2 Σ_{i<t} Σ_k F_ik (θ_k − θ*_ik)²
    F_i   = mean over the data of task i of (∂ℓ/∂θ)²,   ℓ one transition's −log p(y | x, θ)

F_i is the diagonal of the empirical Fisher information, taken at θ*_i when task i ends; for the
point head p is a Gaussian of unit variance. The springs of all tasks add up to one,

    L_old = λ/2 Σ_k S_k (θ_k − P_k / S_k)² + constant,   S = Σ F_i,   P = Σ F_i θ*_i,

so two running sums are all that is kept. As in van de Ven and Tolias (2019), whose implementation
the paper used, λ weighs against the *mean* loss of a sample; here L_dyn is summed over the batch,
so L_old is multiplied by the batch size.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hypercrl.data.buffer import num_training, training_row
from hypercrl.learning.protection import FinishedTask, Protection, Shared


@dataclass(frozen=True)
class Springs(Protection):
    """A quadratic spring to where every old task left the shared weights."""

    strength: float
    batch_size: int

    def init(self, shared):
        return {"stiffness": jnp.zeros_like(shared), "pull": jnp.zeros_like(shared)}

    def start(self, state, shared):
        return state

    def penalty(self, state, shared):
        stiffness = state["stiffness"]
        rest = state["pull"] / jnp.where(stiffness > 0, stiffness, 1.0)
        energy = jnp.vdot(stiffness, (shared - rest) ** 2) / 2
        return self.batch_size * self.strength * energy

    def watch(self, state, gradient, before, after):
        return state

    def end(self, state, shared, task):
        fisher = fisher_diagonal(shared, task, self.batch_size)
        return {
            "stiffness": state["stiffness"] + fisher,
            "pull": state["pull"] + fisher * shared,
        }


def fisher_diagonal(shared: Shared, task: FinishedTask, batch_size: int) -> Shared:
    """The mean squared gradient of a training transition's −log p in the shared weights."""
    count = num_training(task.count)
    gradients = jax.vmap(jax.grad(task.negative_log_likelihood), in_axes=(None, 0, 0))

    def add_batch(i, total):
        samples = i * batch_size + jnp.arange(batch_size)
        rows = jnp.minimum(training_row(samples), len(task.inputs) - 1)
        gradient = gradients(shared, task.inputs[rows], task.targets[rows])
        return total + jnp.where((samples < count)[:, None], gradient**2, 0.0).sum(0)

    num_batches = -(-count // batch_size)
    total = jax.lax.fori_loop(0, num_batches, add_batch, jnp.zeros_like(shared))
    return total / jnp.maximum(count, 1)
