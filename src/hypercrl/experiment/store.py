"""A folder a run: configuration, metrics as they come, checkpoints, events, videos.

    config.json                       what ran, resolved, with the code and its packages
    metrics.jsonl                     every number, one record a line; no clock in it, so that
                                      the same seed gives the same file
    timing.jsonl                      how long things took
    checkpoint.safetensors            everything needed to go on
    checkpoint.previous.safetensors   the one before
    events/                           TensorBoard
    videos/                           one per task and moment, if asked for

A checkpoint remembers how long the records were; what was written after it is cut off when the
run continues. Only one process may write to a folder at a time.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hypercrl import writing
from hypercrl.errors import START_OVER, UserError
from hypercrl.experiment import checkpoint, lock, records
from hypercrl.experiment.code import this_code
from hypercrl.experiment.config import RunConfig, completed, versions
from hypercrl.experiment.records import End, Placed, Record
from hypercrl.experiment.run_folder import (
    CHECKPOINT,
    CONFIG,
    LOCK,
    VIDEOS,
    StoredConfig,
    differences,
    read_config,
    require_ours,
)
from hypercrl.experiment.trackers import (
    TensorBoard,
    Tracker,
    WeightsAndBiases,
    require_wandb,
    scalars,
)

EVENTS = "events"

# Everything of a run, in the order in which it is deleted. The configuration is never missing in
# between: the new one takes the place of the old.
CONTENTS = (
    CHECKPOINT,
    checkpoint.previous(Path(CHECKPOINT)).name,
    checkpoint.partial(Path(CHECKPOINT)).name,
    *(f"{name}.jsonl" for name in records.FILES),
    EVENTS,
    VIDEOS,
    "wandb",
    "wandb.id",
)


Callback = Callable[[Record], None]


class Store:
    """The open folder of one run."""

    def __init__(
        self, folder: Path, config: RunConfig, *, fresh: bool = False, wandb: bool = False
    ):
        self.folder = folder
        self.replaced = False  # whether an earlier run was deleted
        self.callbacks: tuple[Callback, ...] = ()  # told of every record once it is written
        self.extended = 0  # tasks that are asked for and that the run does not have
        self._config = config.to_stored()
        self._wandb = wandb
        self._trackers: list[Tracker] = []
        self._resumed_at: int | None = None
        self._step = 0  # of the last record that has a place
        if wandb:
            require_wandb()
        with self._explain(), contextlib.ExitStack() as opened:
            self._config.to_json()  # what cannot be written is told before anything is touched
            require_ours(folder)
            folder.mkdir(parents=True, exist_ok=True)
            opened.callback(self._take_lock().release)
            self._settle_config(fresh=fresh)
            self._files = {name: opened.enter_context(self._open(name)) for name in records.FILES}
            self._opened = opened.pop_all()

    def record(self, record: Record) -> None:
        """Append one line to the file of its kind; the trackers see the numbers of metrics."""
        with self._explain():
            file = self._files[record.file]
            file.write(records.to_line(record).encode() + b"\n")
            file.flush()
        if record.file == records.METRICS:
            self._step = record.total_step if isinstance(record, Placed) else self._step
            self._track(scalars(record), self._step)
        for callback in self.callbacks:
            callback(record)

    def sign(self) -> bool:
        """Name this code among those that worked on the run; whether it is a newcomer."""
        stored = read_config(self.folder)
        if this_code() in stored.code:
            return False
        with self._explain():
            self._write_config(dataclasses.replace(stored, code=(*stored.code, this_code())))
        return True

    def save(self, arrays: checkpoint.Arrays, info: dict[str, Any], *, total_step: int) -> None:
        """Write a checkpoint that remembers whose it is and how far the records had come."""
        with self._explain():
            for file in self._files.values():
                os.fsync(file.fileno())
            about = {
                "run": _fingerprint(self._stored),
                "lengths": {name: file.tell() for name, file in self._files.items()},
                "total_step": total_step,
            }
            checkpoint.save(self._checkpoint, arrays, {**info, **about})
            for file in self._files.values():
                file.truncate()  # an end that was taken back

    def go_on(self) -> bool:
        """There is more to do: give the run the tasks that it did not have, and take its end back.

        Whether there was an end. It goes with the next checkpoint; up to then the one that
        counted it must find it.
        """
        if self.extended:
            longer = {"num_tasks": self._config.num_tasks, "tasks": self._config.tasks}
            with self._explain():
                self._write_config(dataclasses.replace(self._stored, **longer))
        end, file = records.to_line(End()).encode() + b"\n", self._files[End.file]
        length = file.tell()
        file.seek(max(length - len(end), 0))
        if file.read() != end:
            file.seek(length)
            return False
        file.seek(length - len(end))
        return True

    def restore(self) -> tuple[checkpoint.Arrays, dict[str, Any]] | None:
        """The last checkpoint, with the records cut back to where they were; None if none."""
        found = checkpoint.load_latest(self._checkpoint)
        if found is None:
            self._require_unwritten()
            return None
        info = found[1]
        if info.get("run") not in self._fingerprints():
            raise UserError(
                f"The checkpoint in {self.folder} is of another run than its {CONFIG}; put the "
                f"run's own back, or {START_OVER}."
            )
        self._cut_records(info["lengths"])
        self._resumed_at = self._step = info["total_step"]
        return found

    def close(self) -> None:
        """Release the folder; what could not be written by now was told before."""
        with contextlib.suppress(OSError):
            self._opened.close()

    @property
    def _checkpoint(self) -> Path:
        return self.folder / CHECKPOINT

    def _fingerprints(self) -> list[str]:
        """Marks of the run's checkpoints, for every number of tasks that it may have had."""
        return [_fingerprint(self._stored.first(n)) for n in range(1, self._stored.num_tasks + 1)]

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

    def _take_lock(self) -> Any:
        taken = lock.take(self.folder / LOCK)
        if taken is None:
            raise UserError(
                f"Another process is working on the run in {self.folder}; wait for it or stop it."
            )
        return taken

    def _settle_config(self, *, fresh: bool) -> None:
        """Write the configuration, or make sure that the folder's run is this one."""
        if os.path.lexists(self.folder / CONFIG):
            self._stored = read_config(self.folder)
            if not fresh:
                self._require_same_run()
                self.extended = self._config.num_tasks - self._stored.num_tasks
                return
            self._clear()
        self._write_config(
            dataclasses.replace(self._config, code=(this_code(),), versions=versions())
        )

    def _clear(self) -> None:
        """Delete everything of a run but its configuration; links go, their targets stay."""
        for name in CONTENTS:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.replaced = True

    def _require_same_run(self) -> None:
        """The folder's run has the settings asked for, and no more tasks than are asked for."""
        tasks = self._stored.num_tasks
        if self._config.num_tasks < tasks:
            raise UserError(
                f"{self.folder} holds a run of {tasks} tasks, and fewer are asked for "
                f"({self._config.num_tasks}); ask for as many or more to go on, choose another "
                f"--out, or {START_OVER}."
            )
        asked = self._config.first(tasks)
        changed = differences(completed(self._stored).identity(), asked.identity())
        if changed:
            raise UserError(
                f"{self.folder} holds a run with other settings ({', '.join(changed)}); "
                f"choose another --out, or {START_OVER}."
            )

    def _write_config(self, config: StoredConfig) -> None:
        self._stored = config
        writing.replace(self.folder / CONFIG, config.to_json().encode())

    def _open(self, name: str) -> BinaryIO:
        return writing.open_in_place(self.folder / f"{name}.jsonl")

    def _cut_records(self, lengths: dict[str, int]) -> None:
        for name, file in self._files.items():
            if os.fstat(file.fileno()).st_size < lengths[name]:
                raise UserError(
                    f"{self.folder / name}.jsonl is shorter than when the checkpoint was taken; "
                    f"put the whole file back, or {START_OVER}."
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
                f"back, or {START_OVER}."
            )

    def _track(self, values: dict[str, float], step: int) -> None:
        with self._explain():
            if not self._trackers:
                events = writing.make_folder(self.folder / EVENTS)
                self._add_tracker(TensorBoard(events, self._resumed_at))
                if self._wandb:
                    told = dataclasses.asdict(self._config)
                    self._add_tracker(WeightsAndBiases(self.folder, told))
            for tracker in self._trackers:
                tracker.track(values, step)

    def _add_tracker(self, tracker: Tracker) -> None:
        self._trackers.append(tracker)
        self._opened.callback(tracker.close)


def _fingerprint(config: StoredConfig) -> str:
    identity = json.dumps(config.identity(), sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()
