"""The launcher for one machine: a process a run, a core a process."""

import os
import time
from dataclasses import dataclass, field

from hypercrl.errors import UserError
from hypercrl.sweep.job import POLL_SECONDS, Job, Outcome, RunProcess, stop_all


@dataclass(frozen=True)
class Slot:
    """Room for one run at a time."""

    core: int | None
    environment: dict[str, str] = field(default_factory=dict)


class LocalLauncher:
    """As many runs side by side as there are cores, or as asked for."""

    def __init__(self, jobs: int | None = None):
        self._free = make_slots(jobs)
        self._running: dict[str, tuple[RunProcess, Slot]] = {}

    @property
    def has_room(self) -> bool:
        return bool(self._free)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def num_slots(self) -> int:
        return len(self._free) + len(self._running)

    def start(self, job: Job) -> None:
        slot = self._free[0]
        process = RunProcess(job, core=slot.core, environment=slot.environment)
        self._running[job.name] = (process, self._free.pop(0))

    def collect(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Jobs that ended; waits for the first one, but not longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            ended = []
            for name, (process, slot) in list(self._running.items()):
                outcome = process.poll()
                if outcome is not None:
                    del self._running[name]
                    self._free.append(slot)
                    ended.append((name, outcome))
            if ended or time.monotonic() > deadline:
                return ended
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End every run; each goes on from its last checkpoint another time."""
        stop_all([process for process, _ in self._running.values()])
        self._running.clear()


def make_slots(jobs: int | None) -> list[Slot]:
    """Cores, and visible GPUs in turn, for a number of jobs.

    Runs are pinned where the sweep has the machine to itself. A sweep that leaves cores to
    others lets the system choose: it cannot know which ones are idle.
    """
    cores = available_cores()
    if jobs is not None and jobs < 1:
        raise UserError(f"A sweep needs at least one job at a time, not {jobs}.")
    jobs = jobs or len(cores)
    devices = [d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d.strip()]
    pinned = jobs >= len(cores)
    return [
        Slot(
            core=cores[i % len(cores)] if pinned else None,
            environment={"CUDA_VISIBLE_DEVICES": devices[i % len(devices)]} if devices else {},
        )
        for i in range(jobs)
    ]


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
