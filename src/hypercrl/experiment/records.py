"""The records of a run: a frozen dataclass a kind, written by `to_line`, read by `from_line`.

`metrics.jsonl` holds what happened and is the same for the same seed; `timing.jsonl` holds how
long it took on that machine. Tasks count from 0. JSON has no infinity: a number that blew up is
written as null and reads as NaN, or as None where a record says that it may be missing.
"""

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from hypercrl import reading

T = TypeVar("T")

METRICS, TIMING = "metrics", "timing"
FILES = (METRICS, TIMING)
"""The files of records, without their ending."""

LONGEST_LINE = 10_000_000  # characters; a record of ours is far shorter, whatever it counts

Phase = Literal["zero_shot", "training", "final"]


@dataclass(frozen=True)
class Record:
    """One line of a file of records."""

    kind: ClassVar[str]
    file: ClassVar[str] = METRICS


@dataclass(frozen=True)
class Placed(Record):
    """A record of something that happened at one moment of a run."""

    task: int
    """The task that it is about."""
    step: int
    """Planned control steps since the task under way began."""
    total_step: int
    """Planned control steps since the run began."""


@dataclass(frozen=True)
class RandomPolicy(Record):
    """What a task pays for random actions: the zero of normalised returns."""

    kind = "random_policy"
    task: int
    returns: tuple[float, ...]


@dataclass(frozen=True)
class Episode(Placed):
    """One episode of data collection."""

    kind = "episode"
    episode: int
    total: float
    """The episode's return."""
    random: bool
    """Whether its actions were random ones."""


@dataclass(frozen=True)
class Session(Placed):
    """One training session: means over its updates, and the error on what was held out."""

    kind = "session"
    loss: float | None = None
    regulariser: float | None = None
    validation: float | None = None
    first_loss: float | None = None
    """Of its first update: at a task's start, what the switch costs."""


@dataclass(frozen=True)
class Evaluation(Placed):
    """Test episodes on `task` when `after` was the last task in training."""

    kind = "evaluation"
    after: int
    phase: Phase
    returns: tuple[float, ...]
    successes: tuple[bool, ...] | None = None
    measures: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What else the suite measures of an episode, by name."""
    one_step: float | None = None
    """Error of the task's model after one step, on the task's probe."""
    h_step: float | None = None
    """The same at the end of an open-loop rollout."""

    @property
    def mean(self) -> float:
        """The mean return over the test episodes; NaN without any."""
        return math.fsum(self.returns) / len(self.returns) if self.returns else math.nan


@dataclass(frozen=True)
class Cost(Placed):
    """What a method costs at the end of a task."""

    kind = "cost"
    parameters: int
    """Trainable numbers, all tasks together."""
    bytes_per_task: int
    """Kept for one finished task, without its transitions but with its value, if any."""
    memory_bytes: int
    """Transitions of finished tasks, all together."""
    evaluations_per_action: int
    """Model evaluations behind one action."""
    peak_bytes: int | None = None
    """Everything that the method holds while it learns: its whole state and all transitions."""


@dataclass(frozen=True)
class Embeddings(Record):
    """The task embeddings at the end of task `after`, one vector a task seen."""

    kind = "embeddings"
    after: int
    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Diverged(Placed):
    """The method's numbers are not finite any more; the run stopped here."""

    kind = "diverged"
    what: Literal["loss", "parameters"]


@dataclass(frozen=True)
class End(Record):
    """The run is complete."""

    kind = "end"


@dataclass(frozen=True)
class SessionTime(Record):
    """Wall-clock seconds of one training session."""

    kind = "session"
    file = TIMING
    task: int
    step: int
    seconds: float


@dataclass(frozen=True)
class TaskTime(Record):
    """Wall-clock seconds of one task, in all and by activity."""

    kind = "task"
    file = TIMING
    task: int
    seconds: float
    planning: float
    simulation: float
    training: float
    evaluation: float


KINDS: dict[tuple[str, str], type[Record]] = {
    (kind.file, kind.kind): kind
    for kind in (
        RandomPolicy,
        Episode,
        Session,
        Evaluation,
        Cost,
        Embeddings,
        Diverged,
        End,
        SessionTime,
        TaskTime,
    )
}
"""By file and kind."""


def to_line(record: Record) -> str:
    """One line of JSON, without the line's end."""
    return json.dumps({"kind": record.kind, **_finite(dataclasses.asdict(record))}, allow_nan=False)


def from_line(file: str, line: str) -> Record | None:
    """The record of a line of one of `FILES`; None where the line is of a kind unknown here.

    A line that is none raises a ValueError that says what is wrong with it.
    """
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE:,} characters")
    data = reading.parse_json(line)
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ValueError("it is not a record")
    kind = KINDS.get((file, data["kind"]))
    return None if kind is None else parse(kind, data)


def parse(cls: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass from plain data, every field checked; what nobody knows is left out."""
    values = {}
    for known, hint in _fields(cls):
        if known.name in data:
            values[known.name] = _convert(known.name, hint, data[known.name])
        elif known.default is MISSING and known.default_factory is MISSING:
            raise ValueError(f"it has no '{known.name}'")
    return cls(**values)


@functools.cache
def _fields(cls: Any) -> tuple[tuple[dataclasses.Field, Any], ...]:
    """A dataclass's fields with their annotations; looking these up takes longer than a line."""
    hints = typing.get_type_hints(cls)
    return tuple((known, hints[known.name]) for known in dataclasses.fields(cls))


def _convert(name: str, hint: Any, value: Any) -> Any:
    """A value of the kind that a field's annotation asks for."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _convert(name, inner[0], value)
    if hint is float and value is None:
        return math.nan
    if type(value) in (int, float):
        reading.check_number(value)
    if hint is float and type(value) in (int, float):
        return float(value)
    if hint in (int, bool, str) and type(value) is hint:
        return value
    if origin is Literal and isinstance(value, str) and value in inner:
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(name, inner[0], one) for one in value)
    if origin is Mapping and isinstance(value, Mapping):
        reading.check_names(list(value))
        return {str(key): _convert(name, inner[1], one) for key, one in value.items()}
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return parse(typing.cast(type, hint), value)
    raise ValueError(f"its '{name}' cannot be {ascii(value)[:40]}")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
