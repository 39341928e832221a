"""How every method that follows gradients takes a step: clipped, with Adam, perhaps annealed."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from hypercrl.checks import above, at_least
from hypercrl.learning.adam import adam
from hypercrl.learning.gradients import clip_by_norm, densify


@dataclass(frozen=True)
class Training:
    """What the gradient steps of all methods have in common."""

    batch_size: int = 100
    """Transitions in a batch."""
    max_gradient_norm: float = 5.0
    """Gradients are scaled down to this norm."""
    anneal: bool = False
    """Let the step size shrink to nothing in the course of each session."""

    def __post_init__(self):
        at_least(self, 1, "batch_size")
        above(self, 0, "max_gradient_norm")

    def descend(
        self,
        learning_rate: float,
        params: Any,
        gradients: Any,
        optimizer: optax.OptState,
        progress: Float[Array, ""],
    ) -> tuple[Any, optax.OptState]:
        """Parameters and Adam's moments after one step; all gradients are clipped together."""
        gradients = densify(clip_by_norm(gradients, self.max_gradient_norm))
        step, optimizer = self.adam_step(learning_rate, gradients, optimizer, progress)
        return optax.apply_updates(params, step), optimizer

    def adam_step(
        self,
        learning_rate: float,
        gradients: Any,
        optimizer: optax.OptState,
        progress: Float[Array, ""],
    ) -> tuple[Any, optax.OptState]:
        """Adam's step on gradients as they are."""
        step, optimizer = adam(learning_rate).update(gradients, optimizer)
        return shrink(step, self.anneal, progress), optimizer


def init_optimizer(params: Any) -> optax.OptState:
    """Adam's moments before the first step; every task starts with them."""
    return adam(0.0).init(params)  # the step size is no part of them


def shrink(updates: Any, anneal: bool, progress: Float[Array, ""]) -> Any:
    """Smaller steps towards a session's end, along half a cosine, if `anneal` says so.

    At a constant step size the weights never come to rest, and a session may end with weights
    that predict badly just where the planner looks.
    """
    if not anneal:
        return updates
    pace = (1 + jnp.cos(jnp.pi * progress)) / 2
    return jax.tree.map(lambda step: pace * step, updates)
