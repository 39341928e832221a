"""How the parameters that tasks share are kept from being overwritten.

A protection is a frozen object of settings with a state of its own, which passes through

    init -> [start -> (penalty, watch) at every update -> end] for each task.

`shared` is the flat vector of weights that all tasks use; an old task's own weights have neither
data nor gradient once it is over and need none.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Shared = Float[Array, "shared"]


class FinishedTask(NamedTuple):
    """What a protection may look at when a task ends; the data are gone afterwards."""

    inputs: Float[Array, "C inputs"]
    targets: Float[Array, "C outputs"]
    count: Int[Array, ""]  # of the rows that are data
    negative_log_likelihood: Callable[
        [Shared, Float[Array, "inputs"], Float[Array, "outputs"]], Float[Array, ""]
    ]  # of one transition, given the shared weights


class Protection(abc.ABC):
    """What a method does with the shared weights of old tasks."""

    @abc.abstractmethod
    def init(self, shared: Any) -> Any:
        """A state that protects nothing yet."""

    @abc.abstractmethod
    def start(self, state: Any, shared: Any) -> Any:
        """The state when a task starts."""

    @abc.abstractmethod
    def penalty(self, state: Any, shared: Any) -> Float[Array, ""]:
        """A regulariser, on the scale of L_dyn, which is summed over a batch."""

    @abc.abstractmethod
    def watch(self, state: Any, gradient: Any, before: Any, after: Any) -> Any:
        """Look at one step: the gradient of L_dyn alone, and where the step led."""

    @abc.abstractmethod
    def end(self, state: Any, shared: Any, task: FinishedTask) -> Any:
        """The state when a task ends: what must be remembered of it."""


class Unprotected(Protection):
    """Nothing is done, and nothing remembered."""

    def init(self, shared):
        return ()

    def start(self, state, shared):
        return state

    def penalty(self, state, shared):
        return jnp.zeros(())

    def watch(self, state, gradient, before, after):
        return state

    def end(self, state, shared, task):
        return state
