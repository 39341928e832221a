"""A run's folder as everybody reads it: its files' names, its configuration, its records.

Reports, lists, sweeps and the store itself read a run here and nowhere else. A run may be
unfinished, and a line that was being written when it stopped is ignored; any other line that
cannot be read is an error that names the file and the line. Whoever reads many runs at once
leaves out such a folder, with its reason, and goes on.
"""

import dataclasses
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypercrl import reading
from hypercrl.errors import UserError, printable
from hypercrl.experiment import records
from hypercrl.experiment.records import (
    Cost,
    Diverged,
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
from hypercrl.reading import show

CONFIG = "config.json"
CHECKPOINT = "checkpoint.safetensors"
VIDEOS = "videos"
LOCK = ".lock"
MOST_TASKS = 2_000  # that are compared with each other
DEEPEST_FOLDER = 32  # below the one that is looked through for runs

BEFORE_A_RUN = re.compile(r"\.lock|run\.log|attempts\.json|.*\.json.*\.partial")
"""What may be in a folder before its configuration: a claim, a log, what was being written."""

_VIDEO_NAME = re.compile(r"task-([0-9]{1,6})-after-([0-9]{1,6})\.mp4")

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
    plugins: tuple[str, ...] = ()
    """What the run's suite, method or planner comes from, if not from the package."""

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
        for name in ("seed", "name", "code", "versions", "plugins"):
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
    diverged: Diverged | None = None

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
                f"There is no folder '{show(path)}'; name a run folder or one that holds runs."
            )
        inside = [path] if os.path.lexists(path / CONFIG) else _run_folders(path)
        if not inside:
            raise UserError(f"The folder '{show(path)}' holds no run: there is no {CONFIG} in it.")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def read_config(folder: Path) -> StoredConfig:
    """A run's configuration; one sentence where the folder is not a run."""
    path = folder / CONFIG
    try:
        data = reading.read_json(path, reading.LARGEST_CONFIG)
    except FileNotFoundError as error:
        raise UserError(f"{show(folder)} is not a run: it has no {CONFIG}.") from error
    try:
        if not isinstance(data, dict):
            raise ValueError("it maps no names to values")
        reading.check_names(data)
        return _plausible(records.parse(StoredConfig, data))
    except ValueError as error:
        raise UserError(f"{show(path)} is not the configuration of a run: {error}.") from error


def require_ours(folder: Path) -> None:
    """Complain about a folder that holds something, but no run: it is somebody else's."""
    if folder.is_symlink() and not (folder / CONFIG).is_file():
        raise UserError(f"{show(folder)} is a link to a folder that holds no run.")
    if not folder.is_dir() or os.path.lexists(folder / CONFIG):
        return
    foreign = sorted(name for name in os.listdir(folder) if not BEFORE_A_RUN.fullmatch(name))
    if foreign:
        raise UserError(
            f"{show(folder)} holds {printable(', '.join(foreign[:5]))} but no {CONFIG}, so it is "
            "not a run that could be continued; choose another --out."
        )


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of what differs between two runs' `settings`, or between their `identity`."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def read_run(path: Path) -> Run:
    """Read one run folder."""
    config = read_config(path)
    found = list(read_records(path, num_tasks=config.num_tasks))

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
        videos=_find_videos(path / VIDEOS, config.num_tasks),
        complete=bool(of(End)),
        diverged=next(iter(of(Diverged)), None),
    )


def read_runs(folders: Sequence[Path]) -> tuple[list[Run], dict[Path, str]]:
    """Run folders, and why those that are left out cannot be read."""
    runs: list[Run] = []
    unreadable: dict[Path, str] = {}
    for folder in folders:
        try:
            runs.append(read_run(folder))
        except UserError as error:
            unreadable[folder] = str(error)
    return runs, unreadable


def read_records(
    folder: Path, files: Sequence[str] = records.FILES, *, num_tasks: int = MOST_TASKS
) -> Iterator[Record]:
    """All records of a run of so many tasks, file by file, in the order of their writing."""
    for file in files:
        path = folder / f"{file}.jsonl"
        lines = _read_lines(path)
        for number, line in enumerate(lines, start=1):
            try:
                record = records.from_line(file, line)
                _require_place(record, num_tasks)
            except ValueError as error:
                if number == len(lines):
                    break  # it was being written when the run stopped
                raise UserError(
                    f"Line {number} of {show(path)} cannot be read: {error}."
                ) from error
            if record is not None:
                yield record


def video_name(task: int, after: int) -> str:
    """Where the video of a task is, filmed when task `after` had been learnt, in a run's folder."""
    return f"{VIDEOS}/task-{task}-after-{after}.mp4"


def _run_folders(path: Path) -> list[Path]:
    """Folders with a configuration, however broken it is; links are not followed."""
    found, todo = [], [(path, 0)]
    while todo:
        folder, depth = todo.pop()
        try:
            with os.scandir(folder) as inside:
                entries = list(inside)
        except OSError:
            continue  # not ours to read
        if any(entry.name == CONFIG for entry in entries):
            found.append(folder)
        if depth < DEEPEST_FOLDER:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            todo += [(folder / entry.name, depth + 1) for entry in folders]
    return sorted(found)


def _plausible(config: StoredConfig) -> StoredConfig:
    """Refuse, by a ValueError, what no run of ours could have."""
    if not 1 <= config.num_tasks <= min(len(config.tasks), MOST_TASKS):
        raise ValueError(f"it has {len(config.tasks)} tasks and not {config.num_tasks}")
    if type(config.schedule.get("steps_per_task", 0)) is not int or config.total_steps < 0:
        raise ValueError("its 'steps_per_task' is no number of steps")
    if config.seed < 0:
        raise ValueError(f"its seed is {config.seed}")
    return config


def _require_place(record: Record | None, num_tasks: int) -> None:
    """Refuse, by a ValueError, a record of a moment that a run does not have."""
    for name in ("task", "after"):
        task = getattr(record, name, 0)
        if not 0 <= task < num_tasks:
            raise ValueError(f"its '{name}' is {task} in a run of {num_tasks} tasks")
    if isinstance(record, records.Placed) and min(record.step, record.total_step) < 0:
        raise ValueError("it happened before the run began")


def _read_lines(path: Path) -> list[str]:
    try:
        content = reading.read_bytes(path, reading.LARGEST_RECORDS)
    except FileNotFoundError:
        return []
    # A torn line may end within a character; it is the parser that judges the line.
    text = content.decode("utf-8", errors="replace")
    return text.rstrip("\n").split("\n") if text else []


def _find_videos(folder: Path, num_tasks: int) -> dict[tuple[int, int], Path]:
    """By task and moment; a link is none, since whatever it leads to would be shown."""
    if folder.is_symlink() or not folder.is_dir():
        return {}
    files = [file for file in sorted(folder.iterdir()) if reading.is_regular(file)]
    matches = ((_VIDEO_NAME.fullmatch(file.name), file) for file in files)
    found = {(int(m[1]), int(m[2])): file for m, file in matches if m}
    return {place: file for place, file in found.items() if max(place) < num_tasks}


def _is_endless(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(one, float) and not math.isfinite(one) for one in values)


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, list(value) if isinstance(value, tuple) else value
