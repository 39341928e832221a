"""Synaptic intelligence (Zenke et al. 2017): old weights held by what they earned on the way.

    ω_k  = −Σ_steps (∂L_dyn/∂θ_k) Δθ_k              the path integral over one task
    Ω_k += max(0, ω_k) / ((θ_k − θ̃_k)² + ξ)         when the task ends, θ̃ where it started
    L_old = c Σ_k Ω_k (θ_k − θ̃_k)²                  during the next tasks, θ̃ where they started

L_dyn is summed over the batch, and ω, Ω and L_old inherit that scale, so c needs no factor. An
importance below zero, which noise can leave behind, would push a weight away from its anchor
without bound and counts as zero. As in EWC only the trunk needs protection.
"""

from dataclasses import dataclass

import jax.numpy as jnp

from hypercrl.errors import UserError
from hypercrl.learners.baseline import BaselineLearner
from hypercrl.registry import learners


@learners.register("si")
@dataclass(frozen=True)
class SI(BaselineLearner):
    """The baseline with one spring, whose stiffness grows from task to task."""

    strength: float = 0.1
    """c, the paper's."""
    damping: float = 1e-3
    """ξ: bounds the importance of weights that hardly moved."""

    def __post_init__(self):
        super().__post_init__()
        if self.strength < 0 or self.damping <= 0:
            raise UserError(
                "SI needs a strength of 0 or more and a damping above 0; it was given "
                f"{self.strength} and {self.damping}."
            )

    def init_extra(self, params, num_tasks):
        zeros = jnp.zeros_like(params.shared["trunk"])
        return {"path": zeros, "importance": zeros, "anchor": zeros}

    def start_extra(self, extra, params):
        return extra | {"path": jnp.zeros_like(extra["path"]), "anchor": params.shared["trunk"]}

    def penalty(self, own, extra):
        distance = (own.shared["trunk"] - extra["anchor"]) ** 2
        return self.strength * jnp.vdot(extra["importance"], distance)

    def watch(self, extra, gradient, before, after):
        step = after.shared["trunk"] - before.shared["trunk"]
        return extra | {"path": extra["path"] - gradient.shared["trunk"] * step}

    def end_task(self, state, data, *, key):
        moved = state.params.shared["trunk"] - state.extra["anchor"]
        earned = jnp.maximum(state.extra["path"], 0.0) / (moved**2 + self.damping)
        importance = state.extra["importance"] + earned
        return state.replace(extra=state.extra | {"importance": importance})
