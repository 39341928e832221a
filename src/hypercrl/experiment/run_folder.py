"""A run's folder as everybody reads it: its files' names, its configuration, its records.

Reports, lists, sweeps and the store itself read a run here and nowhere else. A run may be
unfinished, and a line that was being written when it stopped is ignored; any other line that
cannot be read is an error that names the file and the line.
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypercrl.errors import UserError
from hypercrl.experiment import records
from hypercrl.experiment.records import (
    Cost,
    Embeddings,
    End,
    Episode,
    Evaluation,
    RandomPolicy,
    Record,
    Session,
    SessionTime,
    TaskTime,
)

CONFIG = "config.json"
CHECKPOINT = "checkpoint.safetensors"
VIDEOS = "videos"
LOCK = ".lock"

_VIDEO_NAME = re.compile(r"task-(\d+)-after-(\d+)\.mp4")

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Code:
    """The software that worked on a run."""

    version: str
    fingerprint: str
    """Of the sources that decide a run's numbers."""


@dataclass(frozen=True)
class StoredConfig:
    """What `config.json` holds, as plain data: readable without the code of its variants."""

    suite: str
    method: str
    preset: str
    seed: int
    num_tasks: int
    tasks: tuple[str, ...]
    planner: str
    schedule: Mapping[str, Any]
    learner: Mapping[str, Any]
    planning: Mapping[str, Any]
    critic: Mapping[str, Any] = field(default_factory=dict)
    state_dim: int = 0
    action_dim: int = 0
    name: str = ""
    """What a sweep file calls the experiment; empty for the method itself."""
    code: tuple[Code, ...] = ()
    """All that worked on the run, the first one first."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the packages underneath."""

    @property
    def total_steps(self) -> int:
        """Planned control steps of the whole run."""
        return self.num_tasks * self.schedule.get("steps_per_task", 0)

    def first(self, num_tasks: int) -> "StoredConfig":
        """The same run with no more than its first tasks."""
        return dataclasses.replace(self, num_tasks=num_tasks, tasks=self.tasks[:num_tasks])

    def identity(self) -> dict[str, Any]:
        """What makes two configurations the same run: their settings and their seed."""
        return {"seed": self.seed, **self.settings()}

    def settings(self) -> dict[str, Any]:
        """Everything that decides the run's numbers but its seed, under dotted names."""
        plain = dataclasses.asdict(self)
        for name in ("seed", "name", "code", "versions"):
            del plain[name]
        if not self.critic.get("updates"):
            del plain["critic"]  # what is never learnt decides nothing; older runs know of none
        return dict(_flatten(plain))

    def to_json(self) -> str:
        try:
            return json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False) + "\n"
        except ValueError as error:
            names = [name for name, value in self.settings().items() if _is_endless(value)]
            raise UserError(f"A run cannot be kept unless {names[0]} is finite.") from error


@dataclass(frozen=True)
class Run:
    """Everything that a run folder says."""

    path: Path
    config: StoredConfig
    random_policies: tuple[RandomPolicy, ...]
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
    def suite(self) -> str:
        return self.config.suite

    @property
    def method(self) -> str:
        return self.config.method

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def preset(self) -> str:
        return self.config.preset

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.config.tasks[: self.config.num_tasks]

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
        inside = [path] if (path / CONFIG).is_file() else _run_folders(path)
        if not inside:
            raise UserError(f"The folder '{path}' holds no run: no {CONFIG} was found in it.")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def read_config(folder: Path) -> StoredConfig:
    """A run's configuration; one sentence where the folder is not a run."""
    path = folder / CONFIG
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{folder} is not a run: it has no {CONFIG}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not valid JSON.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise UserError(f"{path} is not the configuration of a run.")
    try:
        return records.parse(StoredConfig, data)
    except ValueError as error:
        raise UserError(f"{path} is not the configuration of a run: {error}.") from error


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of what differs between two runs' `settings`, or between their `identity`."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def read_run(path: Path) -> Run:
    """Read one run folder."""
    config = read_config(path)
    found = list(read_records(path))

    def of(kind: type[R]) -> tuple[R, ...]:
        return tuple(record for record in found if isinstance(record, kind))

    return Run(
        path=path,
        config=config,
        random_policies=of(RandomPolicy),
        episodes=of(Episode),
        sessions=of(Session),
        evaluations=of(Evaluation),
        costs=of(Cost),
        embeddings=of(Embeddings),
        session_times=of(SessionTime),
        task_times=of(TaskTime),
        videos=_find_videos(path / VIDEOS),
        complete=bool(of(End)),
    )


def read_records(folder: Path, files: Sequence[str] = records.FILES) -> Iterator[Record]:
    """All records of a run, file by file, in the order in which they were written."""
    for file in files:
        path = folder / f"{file}.jsonl"
        lines = _read_lines(path)
        for number, line in enumerate(lines, start=1):
            try:
                record = records.from_line(file, line)
            except ValueError as error:
                if number == len(lines):
                    break  # it was being written when the run stopped
                raise UserError(f"Line {number} of '{path}' cannot be read: {error}.") from error
            if record is not None:
                yield record


def video_name(task: int, after: int) -> str:
    """Where the video of a task is, filmed when task `after` had been learnt, in a run's folder."""
    return f"{VIDEOS}/task-{task}-after-{after}.mp4"


def _run_folders(path: Path) -> list[Path]:
    return sorted(config.parent for config in path.rglob(CONFIG))


def _read_lines(path: Path) -> list[str]:
    try:
        # A torn line may end within a character; it is the parser that judges the line.
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"The file '{path}' cannot be read: {error}.") from error
    return text.rstrip("\n").split("\n") if text else []


def _find_videos(folder: Path) -> dict[tuple[int, int], Path]:
    if not folder.is_dir():
        return {}
    matches = ((_VIDEO_NAME.fullmatch(file.name), file) for file in sorted(folder.iterdir()))
    return {(int(m[1]), int(m[2])): file for m, file in matches if m}


def _is_endless(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(one, float) and not math.isfinite(one) for one in values)


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, list(value) if isinstance(value, tuple) else value
