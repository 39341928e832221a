"""A run folder, read into one frozen `Run`. Analysis reads nothing else.

A folder holds `config.json` (what was run), `metrics.jsonl` (what happened, reproducible),
`timing.jsonl` (how long it took on that machine) and `videos/`. Tasks count from 0. A run may
be unfinished, and a line that was being written when it stopped is ignored; any other line
that cannot be read is an error that names the file and the line.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from hypercrl.errors import UserError

T = TypeVar("T")

_VIDEO_NAME = re.compile(r"task-(\d+)-after-(\d+)\.mp4")


@dataclass(frozen=True)
class Episode:
    """One episode of data collection."""

    task: int
    episode: int
    step: int
    total_step: int
    total: float  # the episode's return; `return` in the record
    random: bool


@dataclass(frozen=True)
class Session:
    """One training session and its losses."""

    task: int
    step: int
    total_step: int
    loss: float | None = None
    regulariser: float | None = None
    validation: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """Test episodes on `task` when `after` was the last task in training."""

    task: int
    after: int
    phase: str  # "zero_shot", "training" or "final"
    step: int
    total_step: int
    returns: tuple[float, ...]
    successes: tuple[bool, ...] | None = None
    one_step: float | None = None
    h_step: float | None = None

    @property
    def mean(self) -> float:
        """The mean return over the test episodes; NaN without any."""
        return math.fsum(self.returns) / len(self.returns) if self.returns else math.nan


@dataclass(frozen=True)
class Cost:
    """What a method costs at the end of a task."""

    task: int
    parameters: int
    bytes_per_task: int
    memory_bytes: int
    evaluations_per_action: int


@dataclass(frozen=True)
class Embeddings:
    """The task embeddings at the end of task `after`, one vector a task seen."""

    after: int
    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SessionTime:
    """Wall-clock seconds of one training session."""

    task: int
    step: int
    seconds: float


@dataclass(frozen=True)
class TaskTime:
    """Wall-clock seconds of one task, in all and by activity."""

    task: int
    seconds: float
    planning: float
    simulation: float
    training: float
    evaluation: float


@dataclass(frozen=True)
class Run:
    """Everything that a run folder says."""

    path: Path
    config: Mapping[str, Any]
    suite: str
    method: str
    seed: int
    preset: str
    tasks: tuple[str, ...]
    episodes: tuple[Episode, ...]
    sessions: tuple[Session, ...]
    evaluations: tuple[Evaluation, ...]
    costs: tuple[Cost, ...]
    embeddings: tuple[Embeddings, ...]
    session_times: tuple[SessionTime, ...]
    task_times: tuple[TaskTime, ...]
    videos: Mapping[tuple[int, int], Path]  # (task, after): file
    complete: bool

    @property
    def num_tasks(self) -> int:
        return len(self.tasks)


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run folders among `paths` or anywhere below them, each once and in a stable order."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(
                f"There is no folder '{path}'; name a run folder or one that holds runs."
            )
        inside = [path] if (path / "config.json").is_file() else _run_folders(path)
        if not inside:
            raise UserError(f"The folder '{path}' holds no run: no config.json was found in it.")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _run_folders(path: Path) -> list[Path]:
    return sorted(config.parent for config in path.rglob("config.json"))


def read_run(path: Path) -> Run:
    """Read one run folder."""
    config = _read_config(path / "config.json")
    metrics = _by_kind(path / "metrics.jsonl")
    timing = _by_kind(path / "timing.jsonl")
    try:
        seed, names = int(config["seed"]), tuple(map(str, config["tasks"]))
        num_tasks = int(config.get("num_tasks", len(names)))
        suite, method, preset = (str(config[key]) for key in ("suite", "method", "preset"))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"The file '{path / 'config.json'}' lacks a usable {error}.") from error
    return Run(
        path=path,
        config=config,
        suite=suite,
        method=method,
        seed=seed,
        preset=preset,
        tasks=names[:num_tasks],
        episodes=_parse(Episode, metrics.get("episode", ())),
        sessions=_parse(Session, metrics.get("session", ())),
        evaluations=_parse(Evaluation, metrics.get("evaluation", ())),
        costs=_parse(Cost, metrics.get("cost", ())),
        embeddings=_parse(Embeddings, metrics.get("embeddings", ())),
        session_times=_parse(SessionTime, timing.get("session", ())),
        task_times=_parse(TaskTime, timing.get("task", ())),
        videos=_find_videos(path / "videos"),
        complete="end" in metrics,
    )


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"'{file.parent}' is not a run folder: it has no config.json.") from error
    except (ValueError, OSError) as error:
        raise UserError(f"The file '{file}' cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise UserError(f"The file '{file}' does not hold a run's configuration.")
    return config


@dataclass(frozen=True)
class _Line:
    """A parsed record and where it stands, for error messages."""

    file: Path
    number: int
    record: Mapping[str, Any]


def _by_kind(file: Path) -> dict[str, list[_Line]]:
    kinds: dict[str, list[_Line]] = {}
    for line in _read_lines(file):
        kinds.setdefault(str(line.record["kind"]), []).append(line)
    return kinds


def _read_lines(file: Path) -> Iterator[_Line]:
    try:
        # A torn line may end within a character; it is the parser that judges the line.
        lines = file.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"The file '{file}' cannot be read: {error}.") from error
    for number, text in enumerate(lines, start=1):
        try:
            record = json.loads(text)
            record["kind"]
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                return
            raise UserError(f"Line {number} of '{file}' is not a record: {error}.") from error
        yield _Line(file, number, record)


def _parse(kind: type[T], lines: Sequence[_Line]) -> tuple[T, ...]:
    """Records of one kind; what a record lacks takes the field's default, if it has one."""
    known = fields(kind)  # pyright: ignore[reportArgumentType]
    keys = {"return" if field.name == "total" else field.name: field for field in known}
    parsed = []
    for line in lines:
        values = {
            f.name: _freeze(line.record[key]) for key, f in keys.items() if key in line.record
        }
        for key, field in keys.items():
            if field.name not in values and field.default is MISSING:
                raise UserError(f"Line {line.number} of '{line.file}' has no '{key}'.")
        parsed.append(kind(**values))
    return tuple(parsed)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _find_videos(folder: Path) -> dict[tuple[int, int], Path]:
    if not folder.is_dir():
        return {}
    matches = ((_VIDEO_NAME.fullmatch(file.name), file) for file in sorted(folder.iterdir()))
    return {(int(m[1]), int(m[2])): file for m, file in matches if m}
