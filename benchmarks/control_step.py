"""What one control step of 0.1 s costs in the simulated robot suites, on one core.

A control step is everything behind `env.step`: ten controller ticks, fifty physics steps, the
observation and the reward. Free space moves the hand away from the blocks; contact pushes on.
The processor time is the cost, the elapsed time also holds what other processes took.

    python benchmarks/control_step.py
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import time
from collections.abc import Iterator

import numpy as np
import tyro

from hypercrl.registry import suites
from hypercrl.simulation.tabletop import TabletopEnv

TARGET = 3.0  # ms, for a control step of the pusher in contact
FORWARD, BACK, STILL = (1.0, 0.0), (-1.0, 0.0), (0.0, 0.0)


def main(steps: int = 500) -> None:
    """Time control steps with and without contact.

    Args:
        steps: Control steps that each median is taken over.
    """
    print(f"{'suite':8}{'':12}{'contacts':>9}{'processor ms':>14}{'elapsed ms':>12}")
    for suite in ("pusher", "slide"):
        env = suites.get(suite)().tasks[0].make(None)
        report(suite, "free space", time_steps(env, steps, contact=False))
        cost = report(suite, "contact", time_steps(env, steps, contact=True))
        if suite == "pusher":
            verdict = "met" if cost <= TARGET else "missed"
            print(f"{'':8}at most {TARGET:g} ms of processor time in contact: {verdict}")


def report(suite: str, label: str, rows: np.ndarray) -> float:
    contacts, processor, elapsed = np.median(rows, axis=0)
    print(f"{suite:8}{label:12}{contacts:9.0f}{processor:14.2f}{elapsed:12.2f}")
    return float(processor)


def time_steps(env: TabletopEnv, steps: int, contact: bool) -> np.ndarray:
    """Rows of (contacts of the tool, processor ms, elapsed ms)."""
    rows, actions = [], play(env, contact)
    while len(rows) < steps:
        action = np.array(next(actions))
        processor, elapsed = time.thread_time(), time.perf_counter()
        env.step(action)
        elapsed, processor = time.perf_counter() - elapsed, time.thread_time() - processor
        touching = num_contacts(env)
        if bool(touching) == contact:
            rows.append((touching, processor * 1e3, elapsed * 1e3))
    return np.array(rows)


def play(env: TabletopEnv, contact: bool) -> Iterator[tuple[float, float]]:
    """Episodes that retreat and rest, or that push the first block across the table."""
    while True:
        env.reset(seed=0)
        yield from [FORWARD] * 20 if contact else [BACK, *[STILL] * 10]


def num_contacts(env: TabletopEnv) -> int:
    tip = env.model.geom("panda_closed_tip").id
    return int(np.sum(env.data.contact.geom == tip))


if __name__ == "__main__":
    tyro.cli(main)
