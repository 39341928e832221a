"""A folder a run: configuration, metrics as they come, checkpoints, events, videos.

    config.json                what ran, resolved, with package versions
    metrics.jsonl              every number, one JSON object a line; no clock in it, so that the
                               same seed gives the same file
    timing.jsonl               how long things took
    checkpoint.safetensors     everything needed to go on
    events/                    TensorBoard

Only one process may write to a folder at a time.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint
from hypercrl.experiment.config import RunConfig, versions


class Store:
    """The open folder of one run."""

    def __init__(self, folder: Path, config: RunConfig, *, fresh: bool = False):
        self.folder = folder
        self.config = config
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / ".lock", "w")  # noqa: SIM115
        except OSError as error:
            raise UserError(f"The output folder {folder} cannot be written: {error}.") from error
        self._take_lock()
        if fresh:
            self._clear()
        self._settle_config()
        self._metrics = self._open("metrics.jsonl")
        self._timing = self._open("timing.jsonl")
        self._events: Any = None

    def record(self, kind: str, **values: Any) -> None:
        """Append one line to the metrics, and its numbers to the TensorBoard events."""
        line = json.dumps({"kind": kind, **values}, allow_nan=False)
        self._metrics.write(line.encode() + b"\n")
        self._metrics.flush()
        self._add_events(kind, values)

    def record_time(self, kind: str, **values: Any) -> None:
        self._timing.write(json.dumps({"kind": kind, **values}).encode() + b"\n")
        self._timing.flush()

    def save(self, arrays: checkpoint.Arrays, info: dict[str, Any]) -> None:
        """Write a checkpoint that remembers how far the records had come."""
        offsets = {"metrics": self._metrics.tell(), "timing": self._timing.tell()}
        checkpoint.save(self._checkpoint, arrays, {**info, "offsets": offsets})

    def restore(self) -> tuple[checkpoint.Arrays, dict[str, Any]] | None:
        """The last checkpoint, with the records cut back to where they were; None if none."""
        path = checkpoint.latest(self._checkpoint)
        offsets = {"metrics": 0, "timing": 0}
        found = None
        if path is not None:
            found = checkpoint.load(path)
            offsets = found[1]["offsets"]
        for file, name in ((self._metrics, "metrics"), (self._timing, "timing")):
            file.flush()
            file.truncate(offsets[name])
            file.seek(offsets[name])
        return found

    def close(self) -> None:
        self._metrics.close()
        self._timing.close()
        if self._events is not None:
            self._events.close()
        self._lock.close()

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"Another process is writing to {self.folder}; wait for it.") from error

    def _clear(self) -> None:
        for name in ("config.json", "metrics.jsonl", "timing.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
        for path in self.folder.glob("checkpoint*"):
            path.unlink()
        for name in ("events", "videos"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _settle_config(self) -> None:
        """Write the configuration, or make sure that the folder's run is this one."""
        path = self.folder / "config.json"
        wanted = json.loads(json.dumps(self.config.to_json()))
        if path.exists():
            stored = read_config(self.folder)
            stored.pop("versions", None)
            changed = sorted(_differences(stored, wanted))
            if changed:
                raise UserError(
                    f"{self.folder} holds a run with other settings ({', '.join(changed)}); "
                    "choose another --out, or start over with --fresh."
                )
            return
        temporary = path.with_suffix(".partial")
        temporary.write_text(json.dumps({**wanted, "versions": versions()}, indent=2) + "\n")
        os.replace(temporary, path)

    def _open(self, name: str):
        path = self.folder / name
        path.touch()
        return open(path, "r+b")

    def _add_events(self, kind: str, values: dict[str, Any]) -> None:
        step = values.get("total_step")
        if step is None:
            return
        if self._events is None:
            from tensorboardX import SummaryWriter

            self._events = SummaryWriter(str(self.folder / "events"))
        task = values.get("task", 0) + 1
        for name, value in values.items():
            if isinstance(value, float):
                self._events.add_scalar(f"{kind}/{name}/task {task}", value, step)
        if values.get("returns"):
            mean = sum(values["returns"]) / len(values["returns"])
            self._events.add_scalar(f"{kind}/return/task {task}", mean, step)


def read_config(folder: Path) -> dict[str, Any]:
    """A run's configuration; one sentence where the folder is not a run."""
    path = folder / "config.json"
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise UserError(f"{folder} is not a run: it has no config.json.") from error
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is not valid JSON.") from error


def _differences(a: Any, b: Any, place: str = "") -> Iterator[str]:
    """Names of the settings in which two configurations differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in a.keys() | b.keys():
            inner = f"{place}.{name}" if place else name
            yield from _differences(a.get(name), b.get(name), inner)
    elif a != b:
        yield place
