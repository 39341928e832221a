"""Synaptic intelligence (Zenke et al. 2017): old weights held by what they earned on the way.

    ω_k  = −Σ_steps (∂L_dyn/∂θ_k) Δθ_k              the path integral over one task
    Ω_k += max(0, ω_k) / ((θ_k − θ̃_k)² + ξ)         when the task ends, θ̃ where it started
    L_old = c Σ_k Ω_k (θ_k − θ̃_k)²                  during the next tasks, θ̃ where they started

L_dyn is summed over the batch, and ω, Ω and L_old inherit that scale, so c needs no factor. An
importance below zero, which noise can leave behind, would push a weight away from its anchor
without bound and counts as zero.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from hypercrl.learning.protection import Protection


@dataclass(frozen=True)
class PathIntegral(Protection):
    """One spring, whose stiffness grows from task to task."""

    strength: float
    damping: float

    def init(self, shared):
        zeros = jnp.zeros_like(shared)
        return {"path": zeros, "importance": zeros, "anchor": zeros}

    def start(self, state, shared):
        return state | {"path": jnp.zeros_like(state["path"]), "anchor": shared}

    def penalty(self, state, shared):
        return self.strength * jnp.vdot(state["importance"], (shared - state["anchor"]) ** 2)

    def watch(self, state, gradient, before, after):
        return state | {"path": state["path"] - gradient * (after - before)}

    def end(self, state, shared, task):
        moved = shared - state["anchor"]
        earned = jnp.maximum(state["path"], 0.0) / (moved**2 + self.damping)
        return state | {"importance": state["importance"] + earned}
