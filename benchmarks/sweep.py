"""What a sweep gains over the same runs one after another, and that it gives the same numbers.

Eight short cart-pole runs (two methods, four seeds) are made first by `hypercrl train`, one
after another and each on one core, then by `hypercrl sweep` on all cores. The ratio of the
elapsed times is the speed-up; every `metrics.jsonl` must be the same byte for byte.

    python benchmarks/sweep.py

Other processes disturb the two parts unequally: measure on an idle machine.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro

METHODS = ("finetune", "single")
SEEDS = 4
SCHEDULE = {"steps_per_task": 500, "updates": 400, "eval_episodes": 2}
TASKS = 2
TARGET = 0.9  # of the number of cores


def main(jobs: int = 0) -> None:
    """Time both ways.

    Args:
        jobs: Runs at a time; 0 takes all cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    jobs = jobs or len(cores)
    with tempfile.TemporaryDirectory() as folder:
        single, swept = Path(folder) / "single", Path(folder) / "swept"
        one_by_one = timed(lambda: train_each(single, cores[0]))
        print(f"one after another  {one_by_one:6.1f} s")
        side_by_side = timed(lambda: sweep(swept, jobs))
        print(f"{jobs} at a time        {side_by_side:6.1f} s")
        same = read_metrics(single) == read_metrics(swept)
    gain = one_by_one / side_by_side
    print(f"speed-up {gain:.2f} with {jobs} jobs (target: {TARGET * jobs:.1f})")
    print(f"metrics are {'the same' if same else 'DIFFERENT'} byte for byte")
    sys.exit(0 if same else 1)


def timed(act) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def train_each(out: Path, core: int) -> None:
    """The runs by `hypercrl train`, on one core."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SCHEDULE.items()]
    for seed in range(SEEDS):
        for method in METHODS:
            folder = out / f"cartpole-{method}-laptop-s{seed}"
            args = ["train", "cartpole", method, "--tasks", str(TASKS), "--seed", str(seed)]
            hypercrl(*args, "--out", str(folder), *flags, core=core)


def sweep(out: Path, jobs: int) -> None:
    settings = [f"schedule.{name}={value}" for name, value in SCHEDULE.items()]
    args = ["sweep", "--suite", "cartpole", "--method", *METHODS, "--seeds", str(SEEDS)]
    args += ["--tasks", str(TASKS), "--jobs", str(jobs), "--set", *settings]
    hypercrl(*args, "--no-report", "--out", str(out))


def hypercrl(*args: str, core: int | None = None) -> None:
    pin = None if core is None else lambda: os.sched_setaffinity(0, {core})
    command = [sys.executable, "-m", "hypercrl.cli", *args]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=pin)


def read_metrics(folder: Path) -> dict[str, bytes]:
    found = {path.parent.name: path.read_bytes() for path in folder.glob("*/metrics.jsonl")}
    assert len(found) == len(METHODS) * SEEDS
    return found


if __name__ == "__main__":
    tyro.cli(main)
