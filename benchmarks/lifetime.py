"""What a task costs when many came before it: time, memory, checkpoint and start-up.

One run of a hundred tasks with a few steps and updates on each: what is learnt is of no interest
here, only what it takes. A line is printed for some of the tasks, with

    session     the fastest training session: what else the machine does only adds to it
    learner     bytes that the method holds while it learns: its state, the buffer, old transitions
    process     peak of the resident memory of the whole process so far
    checkpoint  bytes on the disk
    start-up    seconds until a new process has loaded what was learnt, imports and all

and at the end how session time and the learner's memory grow. HyperCRL should stay within 1.2
times the time of the second task, and within 1 kB a task.

    python benchmarks/lifetime.py                       # HyperCRL, 100 pushers
    python benchmarks/lifetime.py --method coreset --tasks 25
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from hypercrl.experiment.config import RunConfig, change, has_setting, resolve
from hypercrl.experiment.display import Silent
from hypercrl.experiment.run_folder import CHECKPOINT, Run, read_run
from hypercrl.training import run

SHOWN = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # tasks, counted from 1
KIB = 1024  # bytes, the unit of ru_maxrss
SETTINGS = {
    "schedule.random_episodes": 1,
    "schedule.steps_per_task": 20,
    "schedule.update_every": 2,
    "schedule.eval_episodes": 1,
    "schedule.retest_tasks": 1,
    "schedule.retest_all_every": 0,
    "schedule.zero_shot": False,
    "planning.horizon": 2,
    # HyperCRL's, whichever regulariser it has: one old task in an update, around one region
    "learner.regulariser.regularised_tasks": 1,
    "learner.regulariser.regions": 1,
}


@dataclass(frozen=True)
class Measured:
    """What is seen from outside when a task has just been learnt."""

    process: int  # bytes
    checkpoint: int  # bytes
    start_up: float | None  # seconds


class Watch:
    """Looks at the run's folder and at this process after each task."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.measured: dict[int, Measured] = {}

    def __call__(self, task: int) -> None:
        if task not in self.measured:
            self.measured[task] = Measured(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB,
                (self._folder / CHECKPOINT).stat().st_size,
                start_up(self._folder) if task + 1 in SHOWN else None,
            )


def start_up(folder: Path) -> float:
    """Seconds from the start of a process to a controller that knows all tasks learnt."""
    code = "import sys, hypercrl; hypercrl.load(sys.argv[1]).model(0)"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    return time.perf_counter() - start


def configure(
    suite: str, method: str, regulariser: str | None, tasks: int, updates: int
) -> RunConfig:
    config = resolve(suite, method, regulariser=regulariser, num_tasks=tasks)
    wanted = SETTINGS | {"schedule.updates": updates}
    return change(config, {n: value for n, value in wanted.items() if has_setting(config, n)})


def report(found: Run, measured: dict[int, Measured]) -> None:
    costs = {cost.task: cost for cost in found.costs}
    sessions = {k: min(s.seconds for s in found.session_times if s.task == k) for k in costs}
    print(
        f"{'task':>5} {'session':>10} {'learner':>12} {'process':>10} {'checkpoint':>12} start-up"
    )
    for task in sorted(k for k in measured if k + 1 in SHOWN):
        seen, cost = measured[task], costs[task]
        print(
            f"{task + 1:5d} {1e3 * sessions[task]:8.1f} ms {cost.peak_bytes:10,d} B "
            f"{seen.process / 1e6:7.0f} MB {seen.checkpoint:10,d} B {seen.start_up:6.2f} s"
        )
    first, last = 1, max(costs)
    held = [costs[task].peak_bytes or 0 for task in (first, last)]
    print(f"session time, task {last + 1} against task 2: {sessions[last] / sessions[first]:.2f}")
    print(f"learner's memory: {(held[1] - held[0]) / (last - first):.0f} B a task")


def main(
    suite: str = "pusher",
    method: str = "hypercrl",
    regulariser: str | None = None,
    tasks: int = 100,
    updates: int = 100,
) -> None:
    """Measure.

    Args:
        suite: Suite with enough tasks.
        method: Method to follow.
        regulariser: Another regulariser than the preset's.
        tasks: How many tasks, at least 3.
        updates: Updates in a session.
    """
    config = configure(suite, method, regulariser, tasks, updates)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        watch = Watch(folder)
        run(config, folder, Silent(), after_task=watch)
        report(read_run(folder), watch.measured)


if __name__ == "__main__":
    tyro.cli(main)
