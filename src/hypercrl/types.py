"""The interfaces, in the order in which data flows through them.

    Suite -> Transitions -> Learner -> Model -> Planner -> action

Everything else in the package implements one of these or connects them. Configuration lives
in small frozen objects; state is an explicit pytree that passes through their methods.

Shape letters used throughout: `S` state, `A` action, `N` samples, `H` horizon, `C` capacity,
`T` tasks.
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.encoding import Encoding


@runtime_checkable
class Reward(Protocol):
    """The known reward r(s, a, s'), pure JAX, written once for simulator and planner.

    A plain function, or an `equinox.Module` when a task parameter enters it.
    """

    def __call__(
        self, state: Float[Array, "S"], action: Float[Array, "A"], next_state: Float[Array, "S"]
    ) -> Float[Array, ""]:
        """What one step earns, as one number."""
        ...


@runtime_checkable
class Model(Protocol):
    """One step of learned dynamics with its weights already generated; an `equinox.Module`."""

    def __call__(self, state: Float[Array, "S"], action: Float[Array, "A"]) -> Float[Array, "S"]:
        """The next state."""
        ...


@runtime_checkable
class Value(Protocol):
    """What can still be earned from a state on: what lies behind a planner's horizon.

    An `equinox.Module`.
    """

    def __call__(self, state: Float[Array, "S"]) -> Float[Array, ""]:
        """The return that can be expected, as one number."""
        ...


@dataclass(frozen=True)
class Spec:
    """What every task of a suite shares."""

    state_dim: int
    action_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    episode_length: int
    """In control steps."""
    encoding: Encoding
    """How a state enters the network and how an output moves it."""


@dataclass(frozen=True)
class Task:
    """One dynamics of a suite: `make(render_mode)` builds its Gymnasium environment."""

    name: str
    make: Callable[[str | None], gymnasium.Env]
    reward: Reward


@dataclass(frozen=True)
class Suite:
    """An ordered sequence of tasks over one state and action space."""

    name: str
    spec: Spec
    tasks: tuple[Task, ...]
    presets: Mapping[str, Any]
    """Of `hypercrl.presets.Preset`; the first one is the default."""
    success: Callable[[Any], bool] | None = None
    """Whether an episode succeeded, by its states [H + 1, S]."""
    measures: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)
    """What else to record of a test episode's states [H + 1, S], named with its unit."""


class Transitions(NamedTuple):
    """A buffer's arrays at their full capacity; only the first `count` rows are data.

    `states` [C, S], `actions` [C, A], `next_states` [C, S] and `count`.
    """

    states: Float[Array, "C S"]
    actions: Float[Array, "C A"]
    next_states: Float[Array, "C S"]
    count: Int[Array, ""]


class Memory(NamedTuple):
    """Transitions of finished tasks, one row of arrays a task, for learners that may keep any.

    `states` [T, C, S], `actions` [T, C, A], `next_states` [T, C, S] and `counts` [T].
    """

    states: Float[Array, "T C S"]
    actions: Float[Array, "T C A"]
    next_states: Float[Array, "T C S"]
    counts: Int[Array, "T"]


class Learner(abc.ABC):
    """A continual-learning method: how one dynamics model after another is learnt and kept.

    Implementations are frozen dataclasses of hyperparameters. Fields called `network`,
    `hypernet` and `training` are filled from the suite's preset. Arrays in the state have a row
    for each of `num_tasks` tasks, so that most tasks recompile nothing. When they are full, the
    runner asks `init` for a state with more room and copies what there is into its leading rows.
    """

    memory_share: float = 0.0
    """The share of each finished task's transitions that the runner keeps for this method."""

    @abc.abstractmethod
    def init(self, spec: Spec, num_tasks: int, *, key: PRNGKeyArray) -> Any:
        """A state that has seen no task and has room for so many."""

    @abc.abstractmethod
    def start_task(self, state: Any, task: int, *, key: PRNGKeyArray) -> Any:
        """Make room for task number `task` (from 0) and leave the ones before it behind."""

    @abc.abstractmethod
    def update(
        self,
        state: Any,
        data: Transitions,
        memory: Memory | None,
        *,
        num_updates: int,
        key: PRNGKeyArray,
    ) -> tuple[Any, dict[str, Any]]:
        """One training session on the current task's data, compiled as one call."""

    @abc.abstractmethod
    def end_task(self, state: Any, data: Transitions, *, key: PRNGKeyArray) -> Any:
        """Consolidate what must outlive the task; its data are gone afterwards."""

    @abc.abstractmethod
    def predict(self, state: Any, task: int) -> Model:
        """The model of any task started so far."""

    @abc.abstractmethod
    def num_parameters(self, state: Any) -> int:
        """Trainable parameters, all tasks begun together."""

    @abc.abstractmethod
    def bytes_per_task(self, state: Any) -> int:
        """What the state keeps for one finished task and would not need for the current one."""

    def embeddings(self, state: Any) -> Float[Array, "T E"] | None:
        """Task embeddings, for methods that have them."""
        return None

    def upgrade(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """A saved state's arrays by name; where an older version wrote them, as today's would."""
        return arrays


class Plan(NamedTuple):
    """What a planner decided at one control step."""

    action: Float[Array, "A"]
    """The action to execute now."""
    state: Any
    """The planner's own, handed back at the next step."""
    info: dict[str, Any]
    """What to record of the plan, or tell a robot's program: arrays by name."""


@dataclass(frozen=True)
class Planner(abc.ABC):
    """Model-predictive control: a frozen dataclass of hyperparameters."""

    horizon: int
    """Control steps looked ahead."""

    @abc.abstractmethod
    def init(self, spec: Spec) -> Any:
        """The state at the first step of an episode."""

    @abc.abstractmethod
    def plan(
        self,
        state: Any,
        model: Model,
        reward: Reward,
        observation: Float[Array, "S"],
        *,
        key: PRNGKeyArray,
        value: Value | None = None,
    ) -> Plan:
        """The action for one observation, within the suite's bounds.

        A non-finite imagined return is never elected. Without a value the horizon is all that
        counts, as in the paper.
        """

    @property
    def exploring(self) -> "Planner":
        """The planner that acts while a task is being learnt: this one, or one that tries more."""
        return self

    @property
    @abc.abstractmethod
    def evaluations_per_action(self) -> int:
        """Model evaluations behind one action: the planner's cost."""
