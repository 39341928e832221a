"""The numbers of runs in Python: matrices, metrics and curves as plain arrays.

    found = hypercrl.read("runs/cartpole-hypercrl-laptop-s0")
    found.returns            # r[i, j]: task i after task j, both from 0
    found.curve(0)           # steps and returns of the first task's episodes
    pandas.DataFrame(hypercrl.compare("runs"))

Definitions are in `docs/metrics.md`; a number that there is none of is NaN.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import comparison, metrics
from hypercrl.analysis.comparison import Entry
from hypercrl.analysis.metrics import Matrix, Scores
from hypercrl.experiment.run_folder import Run, find_runs, read_run, read_runs


class Curve(NamedTuple):
    """Something that was measured in the course of a task."""

    steps: Float[np.ndarray, "K"]  # planned control steps in the task
    values: Float[np.ndarray, "K"]


@dataclass(frozen=True)
class Results:
    """One run's numbers. Tasks are counted from 0."""

    run: Run
    """Its configuration and all its records."""
    scores: Scores
    """Every metric of the report."""
    random: Float[np.ndarray, "T"]
    """What random actions earn on each task."""

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.run.tasks

    @property
    def complete(self) -> bool:
        """Whether the run has come to its end."""
        return self.run.complete

    @property
    def returns(self) -> Matrix:
        """r[i, j]: the mean test return on task i after training task j."""
        return self.scores.returns

    @property
    def successes(self) -> Matrix:
        """The share of test episodes that succeeded, likewise."""
        return self.scores.successes

    @property
    def model_errors(self) -> Matrix:
        """The model's one-step errors on the common probe, likewise."""
        return self.scores.one_step

    @property
    def retention(self) -> Float[np.ndarray, "K"]:
        """What is left of each task but the last."""
        return metrics.values(self.scores.retention)

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that sum a run up; those that need a `single` run beside it may be NaN."""
        scores = self.scores
        return {
            "return": scores.average_performance,
            "normalised": scores.normalised_performance,
            "retention": scores.mean_retention,
            "forward_transfer": scores.mean_transfer,
            "forgetting": metrics.mean_of_defined(metrics.forgetting(scores.returns)),
            "success": float(scores.successes[:, -1].mean()),
            "model_error": float(scores.one_step[:, -1].mean()),
            "bytes_kept": float(scores.bytes_kept[-1]),
        }

    def curve(self, task: int) -> Curve:
        """The returns of a task's training episodes, random ones left out."""
        episodes = [e for e in self.run.episodes if e.task == task and not e.random]
        return _curve([e.step for e in episodes], [e.total for e in episodes])

    def loss_curve(self, task: int) -> Curve:
        """The model's error on held-out transitions after each training session of a task."""
        sessions = [s for s in self.run.sessions if s.task == task]
        return _curve([s.step for s in sessions], [s.validation for s in sessions])


def read(run: str | Path) -> Results:
    """The numbers of one run, which may still be going on."""
    (found,) = comparison.compare([read_run(Path(run))])
    return _results(found.entries[0], 0)


def compare(folder: str | Path) -> list[dict[str, Any]]:
    """The numbers of all runs in a folder as rows of a table, the best of each suite first.

    Unlike a run that is read alone, each is measured against the `single` runs beside it. A folder
    that cannot be read is left out, with a warning that says why.
    """
    runs, unreadable = read_runs(find_runs([Path(folder)]))
    for reason in unreadable.values():
        warnings.warn(reason, stacklevel=2)
    rows = []
    for found in comparison.compare(runs):
        for entry in found.entries:
            for i, run in enumerate(entry.runs):
                about = {
                    "suite": found.suite,
                    "preset": found.preset,
                    "method": entry.method,
                    "label": entry.label,
                    "seed": run.seed,
                    "complete": run.complete,
                }
                rows.append({**about, **_results(entry, i).metrics, "folder": str(run.path)})
    return rows


def _results(entry: Entry, index: int) -> Results:
    return Results(entry.runs[index], entry.scores[index], entry.yardstick.random)


def _curve(steps: list[Any], values: list[Any]) -> Curve:
    return Curve(np.array(steps, float), np.array(values, float))
