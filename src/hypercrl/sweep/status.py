"""How far each run of a sweep is, as the live table shows it."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from hypercrl.durations import UNKNOWN, duration
from hypercrl.errors import UserError
from hypercrl.experiment.progress import Progress, read_progress
from hypercrl.experiment.records import METRICS
from hypercrl.experiment.run_folder import CONFIG, StoredConfig

ACTIVE = ("running", "elsewhere")
SETTLED = ("finished", "failed", "stopped")
ONLY_TESTS = "only tests"  # and videos, if asked for


@dataclass
class RunStatus:
    """One run of a sweep and its latest records."""

    name: str
    config: StoredConfig
    folder: Path
    state: str = "waiting"
    reason: str = ""
    progress: Progress | None = None
    damage: str = ""  # why its folder cannot be read, if it cannot
    _stamp: tuple[int, ...] = field(default=(), repr=False)
    _since: tuple[float, int] | None = field(default=None, repr=False)  # clock, total step

    def read(self) -> None:
        """Read the run's records if they have changed; a bad folder is this run's alone."""
        stamp = _stamp(self.folder / f"{METRICS}.jsonl")
        if stamp != self._stamp and os.path.lexists(self.folder / CONFIG):
            try:
                self.progress, self._stamp = read_progress(self.folder), stamp
                self.damage = ""
            except UserError as error:
                self.damage = str(error)
            if self._since is None and self.state == "running":
                self._since = (time.monotonic(), self.done)

    def start(self) -> None:
        """The run has begun, or goes on, now."""
        self.state, self._since = "running", None

    @property
    def is_finished(self) -> bool:
        return self.progress is not None and self.progress.finished

    @property
    def total(self) -> int:
        """Planned control steps of the whole run."""
        return self.config.total_steps

    @property
    def done(self) -> int:
        return self.progress.total_step if self.progress else 0

    @property
    def rate(self) -> float | None:
        """Planned steps a second since the run began or went on; None if not known yet."""
        if self._since is None or self.done <= self._since[1]:
            return None
        clock, step = self._since
        return (self.done - step) / max(time.monotonic() - clock, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        if self.state in SETTLED:
            return 0.0
        rate = self.rate
        return None if rate is None else (self.total - self.done) / rate

    def cells(self) -> tuple[str, ...]:
        """State, task, steps, last return, model error, time left."""
        progress = self.progress
        number = progress.task if progress else 0
        return (
            self.state,
            f"{number}/{self.config.num_tasks}",
            f"{self.done:,}/{self.total:,}",
            _number(progress.last_return if progress else None, ".1f"),
            _number(progress.model_error if progress else None, ".3f"),
            self._left(),
        )

    def _left(self) -> str:
        """How long the run will still take, or what it still does when all steps are made."""
        left = self.seconds_left if self.state == "running" else None
        if left is None:
            return UNKNOWN
        return duration(round(left)) if self.done < self.total else ONLY_TESTS


def sweep_seconds_left(statuses: list[RunStatus], slots: int | None) -> float | None:
    """When the whole sweep will be done, at the pace of the runs that are under way."""
    rates = [rate for status in statuses if (rate := status.rate)]
    if not rates:
        return None
    todo = [s for s in statuses if s.state not in SETTLED]
    mean_rate = sum(rates) / len(rates)
    steps = sum(s.total - s.done for s in todo)
    side_by_side = min(len(todo), slots or len(todo))
    return steps / mean_rate / max(side_by_side, 1)


def _number(value: float | None, style: str) -> str:
    return UNKNOWN if value is None else format(value, style)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
