"""A folder a run: configuration, metrics as they come, checkpoints, events, videos.

    config.json                       what ran, resolved, with package versions
    metrics.jsonl                     every number, one JSON object a line; no clock in it, so
                                      that the same seed gives the same file
    timing.jsonl                      how long things took
    checkpoint.safetensors            everything needed to go on
    checkpoint.previous.safetensors   the one before
    events/                           TensorBoard
    videos/                           one per task and moment, if asked for

A checkpoint remembers how long the records were; what was written after it is cut off when the
run continues. Only one process may write to a folder at a time.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint
from hypercrl.experiment.config import RunConfig, versions
from hypercrl.experiment.trackers import (
    TensorBoard,
    Tracker,
    WeightsAndBiases,
    require_wandb,
    scalars,
)

RECORDS = ("metrics", "timing")
CHECKPOINT = "checkpoint.safetensors"
# Everything of a run, in the order in which it is deleted: the configuration goes last, so that
# a folder without one holds nothing of ours.
CONTENTS = (
    CHECKPOINT,
    checkpoint.previous(Path(CHECKPOINT)).name,
    checkpoint.partial(Path(CHECKPOINT)).name,
    *(f"{name}.jsonl" for name in RECORDS),
    "events",
    "videos",
    "wandb",
    "wandb.id",
    "config.json",
)


class Store:
    """The open folder of one run."""

    def __init__(
        self, folder: Path, config: RunConfig, *, fresh: bool = False, wandb: bool = False
    ):
        self.folder = folder
        self.replaced = False  # whether an earlier run was deleted
        self._config = json.loads(json.dumps(config.to_json()))
        self._wandb = wandb
        self._trackers: list[Tracker] = []
        self._resumed_at: int | None = None
        if wandb:
            require_wandb()
        with self._explain(), contextlib.ExitStack() as opened:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = opened.enter_context(open(folder / ".lock", "w"))
            self._take_lock()
            if fresh:
                self._clear()
            self._settle_config()
            self._files = {name: opened.enter_context(self._open(name)) for name in RECORDS}
            self._opened = opened.pop_all()

    def record(self, kind: str, **values: Any) -> None:
        """Append one line to the metrics, and show its numbers to the trackers."""
        self._append("metrics", kind, values)
        if "total_step" in values:
            self._track(scalars(kind, values), values["total_step"])

    def record_time(self, kind: str, **values: Any) -> None:
        self._append("timing", kind, values)

    def save(self, arrays: checkpoint.Arrays, info: dict[str, Any], *, total_step: int) -> None:
        """Write a checkpoint that remembers whose it is and how far the records had come."""
        with self._explain():
            for file in self._files.values():
                os.fsync(file.fileno())
            about = {
                "run": self._fingerprint,
                "lengths": {name: file.tell() for name, file in self._files.items()},
                "total_step": total_step,
            }
            checkpoint.save(self._checkpoint, arrays, {**info, **about})

    def restore(self) -> tuple[checkpoint.Arrays, dict[str, Any]] | None:
        """The last checkpoint, with the records cut back to where they were; None if none."""
        found = checkpoint.load_latest(self._checkpoint)
        if found is None:
            self._require_unwritten()
            return None
        info = found[1]
        if info.get("run") != self._fingerprint:
            raise UserError(
                f"The checkpoint in {self.folder} is of another run than its config.json; put the "
                "run's own back, or start over with --fresh."
            )
        self._cut_records(info["lengths"])
        self._resumed_at = info["total_step"]
        return found

    def close(self) -> None:
        """Release the folder; what could not be written by now was told before."""
        with contextlib.suppress(OSError):
            self._opened.close()

    @property
    def _checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    @property
    def _fingerprint(self) -> str:
        """What a checkpoint of this configuration is marked with."""
        return hashlib.sha256(json.dumps(self._config, sort_keys=True).encode()).hexdigest()

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """A disk that is full or cannot be written, in one sentence."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"The run's folder {self.folder} cannot be written ({error.strerror or error}); "
                "put that right and give the same command again: it goes on from the last "
                "checkpoint, if there is one."
            ) from error

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another process is working on the run in {self.folder}; wait for it or stop it."
            ) from error

    def _clear(self) -> None:
        """Delete a run; a folder that holds none stays as it is."""
        if not (self.folder / "config.json").exists():
            return
        read_config(self.folder)
        for name in CONTENTS:
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.replaced = True

    def _settle_config(self) -> None:
        """Write the configuration, or make sure that the folder's run is this one."""
        path = self.folder / "config.json"
        if path.exists():
            stored = read_config(self.folder)
            stored.pop("versions", None)
            changed = sorted(_differences(stored, self._config))
            if changed:
                raise UserError(
                    f"{self.folder} holds a run with other settings ({', '.join(changed)}); "
                    "choose another --out, or start over with --fresh."
                )
            return
        foreign = [name for name in CONTENTS if (self.folder / name).exists()]
        if foreign:
            raise UserError(
                f"{self.folder} holds {', '.join(foreign)} but no config.json, so it is not a run "
                "that could be continued; choose another --out."
            )
        temporary = path.with_suffix(".partial")
        with open(temporary, "w") as file:
            file.write(json.dumps({**self._config, "versions": versions()}, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def _open(self, name: str):
        path = self.folder / f"{name}.jsonl"
        path.touch()
        return open(path, "r+b")

    def _append(self, name: str, kind: str, values: dict[str, Any]) -> None:
        line = json.dumps({"kind": kind, **values}, allow_nan=False)
        with self._explain():
            self._files[name].write(line.encode() + b"\n")
            self._files[name].flush()

    def _cut_records(self, lengths: dict[str, int]) -> None:
        for name, file in self._files.items():
            if os.fstat(file.fileno()).st_size < lengths[name]:
                raise UserError(
                    f"{self.folder / name}.jsonl is shorter than when the checkpoint was taken; "
                    "put the whole file back, or start over with --fresh."
                )
        with self._explain():
            for name, file in self._files.items():
                file.truncate(lengths[name])
                file.seek(lengths[name])

    def _require_unwritten(self) -> None:
        """The first checkpoint precedes the first record: without one there can be none."""
        if any(os.fstat(file.fileno()).st_size for file in self._files.values()):
            raise UserError(
                f"{self.folder} holds the records of a run whose checkpoint is missing; put it "
                "back, or start over with --fresh."
            )

    def _track(self, values: dict[str, float], step: int) -> None:
        with self._explain():
            if not self._trackers:
                self._add_tracker(TensorBoard(self.folder / "events", self._resumed_at))
                if self._wandb:
                    self._add_tracker(WeightsAndBiases(self.folder, self._config))
            for tracker in self._trackers:
                tracker.track(values, step)

    def _add_tracker(self, tracker: Tracker) -> None:
        self._trackers.append(tracker)
        self._opened.callback(tracker.close)


def video_name(task: int, after: int) -> str:
    """Where the video of a task is, filmed when task `after` had been learnt, in a run's folder."""
    return f"videos/task-{task}-after-{after}.mp4"


def read_config(folder: Path) -> dict[str, Any]:
    """A run's configuration; one sentence where the folder is not a run."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise UserError(f"{folder} is not a run: it has no config.json.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not valid JSON.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
    expected = {"suite", "method", "seed", "num_tasks", "schedule"}
    if not isinstance(config, dict) or not expected <= config.keys():
        raise UserError(f"{path} is not the configuration of a run.")
    return config


def _differences(a: Any, b: Any, place: str = "") -> Iterator[str]:
    """Names of the settings in which two configurations differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in a.keys() | b.keys():
            inner = f"{place}.{name}" if place else name
            yield from _differences(a.get(name), b.get(name), inner)
    elif a != b:
        yield place
