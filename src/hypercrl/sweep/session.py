"""Carries out a plan: claim a run, launch it, follow it, settle it, until none is left.

A run is worked on by whoever holds its claim. One that another sweep holds is waited for: it
may yet be left unfinished, and then it is ours to finish.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from hypercrl.errors import UserError, advise_sweep, describe
from hypercrl.experiment.run_folder import (
    CONFIG,
    differences,
    read_config,
    require_ours,
    video_name,
)
from hypercrl.reading import show
from hypercrl.sweep.job import Job, Outcome
from hypercrl.sweep.location import Location, is_open_elsewhere
from hypercrl.sweep.manifest import failure_since, now, write_manifest
from hypercrl.sweep.plan import PlannedRun
from hypercrl.sweep.status import ACTIVE, RunStatus
from hypercrl.sweep.table import SweepDisplay

REFRESH_SECONDS = 1.0


@runtime_checkable
class Launcher(Protocol):
    """Where jobs go."""

    @property
    def has_room(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    @property
    def num_slots(self) -> int | None: ...

    def start(self, job: Job) -> None: ...

    def collect(self, seconds: float) -> list[tuple[str, Outcome]]: ...

    def stop(self) -> None:
        """End what is running and let go of everything."""
        ...


@dataclass(frozen=True)
class Shared:
    """What all jobs of a sweep share."""

    out: str  # the location's folder or URL
    plugins: tuple[str, ...] = ()
    videos: bool = False
    checkpoint_seconds: float | None = None
    wandb: bool = False


class Session:
    """One call of a sweep."""

    def __init__(
        self,
        plan: Sequence[PlannedRun],
        location: Location,
        launcher: Launcher,
        display: SweepDisplay,
        shared: Shared,
    ):
        self._location = location
        self._launcher = launcher
        self._display = display
        self._shared = shared
        self._begun = now()
        self._followed_at = 0.0
        self.statuses = [_status(run, location.view) for run in plan]
        self._by_name = {status.name: status for status in self.statuses}

    def run(self) -> list[RunStatus]:
        """Everything that is left to do; returns how each run ended."""
        try:
            self._refresh(self.statuses)
            for status in self.statuses:
                problem = _problem(status)
                if problem:
                    status.state, status.reason = "failed", problem
                elif not self._has_work(status):
                    status.state = "finished"
            with self._display:
                self._carry_out()
        finally:
            self._launcher.stop()
            for status in self.statuses:
                if status.state == "running":
                    self._settle(status, Outcome("stopped"))
            self._note()
        return self.statuses

    def _carry_out(self) -> None:
        self._note()
        while self._open() or self._launcher.busy:
            for status in self._open():
                if not self._launcher.has_room:
                    break
                self._take_up(status)
            for name, outcome in self._launcher.collect(REFRESH_SECONDS):
                self._settle(self._by_name[name], outcome)
            self._follow()
            self._display.update(self.statuses, self._launcher.num_slots)

    def _follow(self) -> None:
        """Read the records of the runs under way, as often as the location likes."""
        if time.monotonic() - self._followed_at >= self._location.refresh_seconds:
            self._refresh([s for s in self.statuses if s.state in ACTIVE])
            self._followed_at = time.monotonic()

    def _open(self) -> list[RunStatus]:
        return [s for s in self.statuses if s.state in ("waiting", "elsewhere")]

    def _take_up(self, status: RunStatus) -> None:
        """Launch a run unless another sweep has it, or had it in the meantime."""
        try:
            if not self._location.claim(status.name):
                status.state = "elsewhere"
                return
            outcome = self._known_outcome(status)
            if outcome is None:
                status.start()
                token = self._location.token
                self._launcher.start(
                    Job(status.name, status.config, **vars(self._shared), claim=token)
                )
                self._display.update(self.statuses, self._launcher.num_slots)
        except UserError as error:
            outcome = Outcome("failed", advise_sweep(str(error)))
        except Exception as error:  # of the disk, or of whichever store it is
            outcome = Outcome("failed", f"The run could not be started: {describe(error)}.")
        if outcome is not None:
            self._settle(status, outcome)

    def _known_outcome(self, status: RunStatus) -> Outcome | None:
        """What has become of a run while it was not ours; None if it is to be launched."""
        if is_open_elsewhere(status.folder):  # by `hypercrl train`, which makes no claims
            return Outcome("elsewhere")
        self._refresh([status])
        require_ours(status.folder)
        if status.damage:
            return Outcome("failed", advise_sweep(status.damage))
        failure = failure_since(status.folder, self._begun)
        if failure is not None:
            return Outcome("failed", failure)
        return None if self._has_work(status) else Outcome("finished")

    def _settle(self, status: RunStatus, outcome: Outcome) -> None:
        self._refresh([status])
        status.state, status.reason = outcome.state, outcome.reason
        self._note()
        self._location.release(status.name)
        if outcome.note:
            self._display.tell(f"{status.name}: {outcome.note}")

    def _has_work(self, status: RunStatus) -> bool:
        last = status.config.num_tasks - 1
        videos = [status.folder / video_name(task, last) for task in range(last + 1)]
        missing = self._shared.videos and not all(video.exists() for video in videos)
        return missing or not status.is_finished

    def _refresh(self, statuses: Sequence[RunStatus]) -> None:
        for status in statuses:
            # What a store does not give now it may give the next time; the rest goes on.
            with contextlib.suppress(UserError, OSError):
                self._location.refresh([status.name])
            status.read()

    def _note(self) -> None:
        """Bring the manifest up to date."""
        runs = {status.name: (status.config, status.state) for status in self.statuses}
        try:
            with self._location.exclusive():
                path = write_manifest(self._location.view, runs)
                self._location.publish(path)
        except OSError as error:
            reason = describe(error)
            raise UserError(f"The sweep's manifest cannot be written: {reason}.") from error


def _status(run: PlannedRun, root: Path) -> RunStatus:
    return RunStatus(run.name, run.config.to_stored(), root / run.name)


def _problem(status: RunStatus) -> str:
    """Why a folder can neither be skipped nor continued; empty if it can."""
    if status.damage or not os.path.lexists(status.folder / CONFIG):
        return advise_sweep(status.damage)
    try:
        stored = read_config(status.folder)
    except UserError as error:
        return advise_sweep(str(error))
    changed = differences(stored.identity(), status.config.identity())
    if not changed:
        return ""
    return (
        f"{show(status.folder)} holds a run with other settings ({', '.join(changed)}); "
        "choose another --out."
    )
