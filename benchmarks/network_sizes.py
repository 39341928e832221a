"""How large a target network must be: size, model error, return and time of runs side by side.

    hypercrl sweep --file results/economy/networks.yaml --out runs/networks
    python benchmarks/network_sizes.py runs/networks

One line for a suite and a network, over all seeds that there are: the error and the return of the
first task when it was just learnt. Times are those of the records, so only their ratios count.
"""

from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import tyro

from hypercrl.analysis.statistics import mean_std
from hypercrl.experiment.run_folder import Run, find_runs, read_run


def main(folders: Annotated[tuple[Path, ...], tyro.conf.Positional]) -> None:
    """Print a Markdown table.

    Args:
        folders: Runs, or where runs are.
    """
    found: dict[tuple[str, tuple[int, ...]], list[Run]] = {}
    for run in map(read_run, find_runs(folders)):
        if run.complete:
            hidden = run.config.learner["network"]["hidden"]
            found.setdefault((run.suite, tuple(hidden)), []).append(run)
    print("| suite | network | weights | one-step error | return | success | time of a task |")
    print("|---|---|---|---|---|---|---|")
    ordered = sorted(found.items(), key=lambda item: (item[0][0], size(item[1])))
    for (suite, hidden), runs in ordered:
        tests = [t for run in runs for t in run.evaluations if (t.phase, t.after) == ("final", 0)]
        returns = np.concatenate([test.returns for test in tests])
        mean, std = mean_std(returns)
        error = 1.96 * (std or 0.0) / len(returns) ** 0.5
        successes = [one for test in tests for one in test.successes or ()]
        cells = (
            suite,
            " × ".join(map(str, hidden)),
            f"{size(runs):,}",
            ", ".join(f"{test.one_step:.3f}" for test in tests),
            f"{mean:.1f} ± {error:.1f}",
            f"{fmean(successes):.0%}" if successes else "–",
            f"{fmean(run.task_times[0].seconds for run in runs):.0f} s",
        )
        print("| " + " | ".join(cells) + " |")


def size(runs: list[Run]) -> int:
    """Weights of one task's network, the same in all of them."""
    return runs[0].costs[0].parameters


if __name__ == "__main__":
    tyro.cli(main)
