"""Two settings of whole runs side by side: time, return and success.

    hypercrl sweep --file results/economy/before_after.yaml --out runs/economy
    python benchmarks/whole_runs.py runs/economy --before 0.2.0 --after now

Compares the runs that a sweep file gave two names, suite by suite, over the seeds and tasks that
both have. Times are those of the records. A sweep runs first seeds first, so that both settings
of a seed are made at about the same time on the same machine; the ratio, not the seconds, is the
result. What five tasks would take is worked out from the same records: the time of a task without
its tests, and the time of a test episode times as many as the schedule asks for.
"""

from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import tyro

from hypercrl.analysis.statistics import mean_std
from hypercrl.experiment.run_folder import Run, find_runs, read_run

NUM_TASKS = 5  # of the paper's suites


def main(
    folder: Annotated[Path, tyro.conf.Positional], before: str = "before", after: str = "after"
) -> None:
    """Compare.

    Args:
        folder: Where the runs are.
        before: Name of the settings that are compared with.
        after: Name of the settings that are compared.
    """
    runs = [read_run(path) for path in find_runs([folder])]
    pairs: dict[str, list[tuple[Run, Run]]] = {}
    named = {(run.suite, run.seed, run.config.name): run for run in runs if run.complete}
    for (suite, seed, name), run in sorted(named.items()):
        if name == after and (suite, seed, before) in named:
            pairs.setdefault(suite, []).append((named[suite, seed, before], run))
    for suite, found in pairs.items():
        seeds = ", ".join(str(one.seed) for one, _ in found)
        print(f"{suite}, seeds {seeds}, {found[0][0].num_tasks} tasks")
        for what, measure in (("as run", seconds), (f"{NUM_TASKS} tasks", seconds_of_five)):
            old, new = (sum(measure(pair[side]) for pair in found) for side in (0, 1))
            ratios = ", ".join(f"{measure(b) / measure(a):.2f}" for a, b in found)
            print(f"  time, {what:8} {old:6.0f} s -> {new:6.0f} s  = {new / old:.2f} x  ({ratios})")
        for task in range(found[0][0].num_tasks):
            cells = (describe([pair[side] for pair in found], task) for side in (0, 1))
            print(f"  task {task + 1}: " + "  ->  ".join(cells))


def seconds(run: Run) -> float:
    return sum(time.seconds for time in run.task_times)


def seconds_of_five(run: Run) -> float:
    """What the run would take with the paper's five tasks."""
    schedule = run.config.schedule
    working = fmean(time.seconds - time.evaluation for time in run.task_times)
    episodes = sum(len(test.returns) for test in run.evaluations)
    testing = sum(time.evaluation for time in run.task_times) / episodes
    asked = schedule["eval_episodes"]
    in_between = (NUM_TASKS - 1) * (NUM_TASKS - 2) // 2
    tests = NUM_TASKS * asked + (NUM_TASKS - 1) * asked
    tests += in_between * (schedule.get("retest_episodes") or asked)
    tests += (NUM_TASKS - 1) * schedule["curve_episodes"] * schedule["zero_shot"]
    return NUM_TASKS * working + tests * testing


def describe(runs: list[Run], task: int) -> str:
    """Mean over all episodes of the task just learnt, with its 95 % interval over episodes."""
    tests = [t for run in runs for t in run.evaluations if t.phase == "final"]
    own = [t for t in tests if t.task == task and t.after == task]
    returns = np.concatenate([t.returns for t in own])
    mean, std = mean_std(returns)
    text = f"{mean:.1f} ± {1.96 * (std or 0.0) / len(returns) ** 0.5:.1f}"
    successes = [one for t in own for one in t.successes or ()]
    return text + (f", success {fmean(successes):.0%}" if successes else "")


if __name__ == "__main__":
    tyro.cli(main)
