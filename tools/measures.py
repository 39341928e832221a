"""How well each task was done when it had just been learnt: a Markdown table from runs' records.

Run with: python tools/measures.py RUN…
"""

import sys
from pathlib import Path
from statistics import fmean

from hypercrl.experiment.records import Evaluation
from hypercrl.experiment.run_folder import Run, read_run


def just_learnt(run: Run) -> list[Evaluation]:
    """The final evaluations r[i, i] of a run, in the order of the tasks."""
    return [e for e in run.evaluations if e.phase == "final" and e.task == e.after]


def row(run: Run, found: Evaluation, names: list[str]) -> list[object]:
    measures = (found.measures.get(name) for name in names)
    return [
        run.suite,
        run.seed,
        run.tasks[found.task],
        f"{found.mean:.1f}",
        f"{100 * fmean(found.successes):.0f} %" if found.successes else "–",
        *("–" if values is None else f"{fmean(values):.3g}" for values in measures),
        "–" if found.one_step is None else f"{found.one_step:.2f}",
    ]


def main(folders: list[Path]) -> None:
    runs = [read_run(folder) for folder in folders]
    names = sorted({name for run in runs for found in just_learnt(run) for name in found.measures})
    columns = ["suite", "seed", "task", "return", "success", *names, "one-step error"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for run in runs:
        for found in just_learnt(run):
            print("| " + " | ".join(map(str, row(run, found, names))) + " |")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
