"""What keeps a hypernetwork's old tasks where they were while it learns a new one.

A regulariser is a frozen object of settings. In every update it names old tasks to look at and
says how far their networks have moved from the *anchors*, the weights that the hypernetwork
generated for them when the task under way began; a snapshot of it generates them again. What a
regulariser needs to keep of a finished task, if anything, is a pytree with one row a task; it is
never a transition.
"""

import abc
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hypercrl.checks import at_least
from hypercrl.dynamics.heads import HeadParams
from hypercrl.dynamics.model import Network
from hypercrl.types import Spec


@dataclass(frozen=True)
class Regulariser(abc.ABC):
    """A penalty on the scale of L_dyn, which is summed over the batch."""

    strength: float

    def __post_init__(self):
        at_least(self, 0, "strength")

    @property
    @abc.abstractmethod
    def draws(self) -> bool:
        """Whether every update looks at other old tasks."""

    @abc.abstractmethod
    def init(self, spec: Spec, num_tasks: int) -> Any:
        """What is kept of finished tasks before there is one."""

    @abc.abstractmethod
    def remember(
        self,
        kept: Any,
        task: Int[Array, ""],
        inputs: Float[Array, "C inputs"],
        used: Bool[Array, "C"],
        *,
        key: PRNGKeyArray,
    ) -> Any:
        """Keep what is needed of a task that ends, from its normalised inputs."""

    @abc.abstractmethod
    def rows(self, task: Int[Array, ""], num_tasks: int, key: PRNGKeyArray) -> Int[Array, "R"]:
        """Tasks to look at in this update; those from `task` on count nothing."""

    @abc.abstractmethod
    def penalty(
        self,
        weights: Float[Array, "R W"],
        anchors: Float[Array, "R W"],
        old: "OldTasks",
        key: PRNGKeyArray,
    ) -> Float[Array, ""]:
        """L_reg of the weights that are generated for those tasks now."""


@dataclass(frozen=True)
class OldTasks:
    """Which rows a penalty is about, and the networks that they are of."""

    rows: Int[Array, "R"]
    task: Int[Array, ""]  # under way, counted from 0: as many as there are old ones
    kept: Any
    batch_size: int
    network: Network
    head: HeadParams
    spec: Spec
