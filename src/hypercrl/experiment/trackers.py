"""The numbers of a run while it goes on, in TensorBoard and, if asked for, Weights & Biases.

Both see what `metrics.jsonl` gets and neither is read again. A run that continues tells
TensorBoard which of the crashed process's events to forget; W&B goes on in the same W&B run.
"""

import dataclasses
import math
import os
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hypercrl import reading, writing
from hypercrl.errors import UserError
from hypercrl.experiment.records import Cost, Placed, RandomPolicy, Record

FLUSH_SECONDS = 5.0  # how long an event may wait in memory
PROJECT = "hypercrl"  # where W&B files the runs


class Tracker(ABC):
    """Told of every record."""

    @abstractmethod
    def track(self, scalars: dict[str, float], step: int) -> None:
        """Take the numbers of one record; `step` counts the planned control steps of the run."""

    @abstractmethod
    def close(self) -> None: ...


class TensorBoard(Tracker):
    """An events file a process, written in step with the run.

    tensorboardX's own `SummaryWriter` hands events to a thread, which dies unseen on a full
    disk and leaves the run waiting for it forever.
    """

    def __init__(self, folder: Path, resumed_at: int | None):
        from tensorboardX.proto import event_pb2, summary_pb2
        from tensorboardX.record_writer import RecordWriter

        self._events: Any = event_pb2
        self._summaries: Any = summary_pb2
        folder.mkdir(exist_ok=True)
        now = time.time_ns()  # TensorBoard reads the files in the order of their names
        self._file = RecordWriter(str(folder / f"events.out.tfevents.{now}.{socket.gethostname()}"))
        self._flushed_at = time.monotonic()
        self._write(file_version="brain.Event:2")
        if resumed_at is not None:
            # The events at the step of the checkpoint itself are good; later ones come again.
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(step=resumed_at + 1, session_log=start)

    def track(self, scalars, step):
        values = [
            self._summaries.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars.items()
        ]
        self._write(step=step, summary=self._summaries.Summary(value=values))
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self._file.flush()
            self._flushed_at = time.monotonic()

    def close(self):
        self._file.close()

    def _write(self, **content: Any) -> None:
        event = self._events.Event(wall_time=time.time(), **content)
        self._file.write(event.SerializeToString())


class WeightsAndBiases(Tracker):
    """One W&B run for one folder, however many processes work on it."""

    def __init__(self, folder: Path, config: dict[str, Any]):
        wandb = require_wandb()
        name = folder / "wandb.id"
        if not reading.is_regular(name):
            writing.replace(name, uuid.uuid4().hex[:8].encode())
        writing.make_folder(folder / "wandb")  # W&B writes there, and follows links
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=folder.name,
                id=name.read_text(),
                resume="allow",
                dir=str(folder),
                config=config,
            )
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"Weights & Biases cannot be used: {reason}.") from error
        # W&B's own step may never go back, but a run that continues goes back a little.
        self._run.define_metric("*", step_metric="total_step")

    def track(self, scalars, step):
        self._run.log({"total_step": step, **scalars})

    def close(self):
        self._run.finish()


def require_wandb() -> Any:
    """The optional package, or one sentence on how to get it."""
    try:
        import wandb  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(
            "Weights & Biases is not installed; `pip install hypercrl[wandb]` adds it."
        ) from error
    return wandb


def scalars(record: Record) -> dict[str, float]:
    """The numbers of a record as `kind/name/task_N`, each tuple as its mean, N from 1.

    Whole numbers say where a record belongs, but for those of a cost.
    """
    numbers: dict[str, float] = {}
    for name, value in _values(record):
        if isinstance(value, float) or isinstance(record, Cost):
            numbers[name] = float(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], float | bool):
            numbers[name] = math.fsum(value) / len(value)
    task = record.task if isinstance(record, Placed | RandomPolicy) else 0
    return {
        f"{record.kind}/{name}/task_{task + 1}": number
        for name, number in numbers.items()
        if math.isfinite(number)
    }


def _values(record: Record) -> Iterator[tuple[str, Any]]:
    """What a record holds beside its place, without a mapping's own name."""
    place = {field.name for field in dataclasses.fields(Placed)}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Mapping):
            yield from value.items()
        elif field.name not in place and value is not None:
            yield field.name, value
