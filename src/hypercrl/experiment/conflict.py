"""Do the tasks of a suite conflict? Every task's model on every task.

A continual-learning benchmark is only one if a model of one task is clearly worse on the
others. Row i, column j: plan with the model of task i in the environment of task j, and
measure that model's one-step error on true transitions of task j.
"""

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypercrl.errors import UserError
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import Controller, load
from hypercrl.experiment.episode import run_episode
from hypercrl.experiment.testing import make_probe, probe_errors


@dataclass(frozen=True)
class Conflict:
    """Matrices over (model, task), averaged over runs."""

    tasks: tuple[str, ...]
    returns: np.ndarray  # [T, T]
    errors: np.ndarray  # [T, T], one step, relative to the task's own changes

    def markdown(self) -> str:
        """Two tables, models down and tasks across; the own task in bold."""
        return "\n\n".join(
            (
                "Return:\n\n" + _table(self.tasks, self.returns, "{:.0f}"),
                "One-step model error:\n\n" + _table(self.tasks, self.errors, "{:.2f}"),
            )
        )


def measure(runs: list[Path], num_episodes: int) -> Conflict:
    """Cross every model with every task, for each run, and average."""
    results = [_measure_run(run, num_episodes) for run in runs]
    returns, errors = (np.mean(parts, axis=0) for parts in zip(*results, strict=True))
    return Conflict(tuple(t.name for t in load(runs[0]).suite.tasks), returns, errors)


def _measure_run(run: Path, num_episodes: int) -> tuple[np.ndarray, np.ndarray]:
    controller = load(run)
    count = len(controller.suite.tasks)
    if controller.num_learnt < count:
        raise UserError(f"{run} has not learnt all of its tasks yet.")
    probes = [make_probe(controller.suite, task) for task in range(count)]
    returns, errors = np.zeros((count, count)), np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            returns[i, j] = _mean_return(controller, i, j, num_episodes)
            one_step, _ = probe_errors(controller.model(i), controller.suite.spec, probes[j])
            errors[i, j] = float(one_step)
    return returns, errors


def _mean_return(controller: Controller, model: int, task: int, num_episodes: int) -> float:
    actor = Actor(
        controller.suite.tasks[task],
        controller.suite.spec,
        controller.config.planner,
        seed=controller.config.seed,
        purpose=("conflict", task, model),
    )
    act = functools.partial(actor.plan, controller.model(model), controller.value(model))
    with contextlib.closing(actor):
        return float(np.mean([run_episode(act).total for _ in range(num_episodes)]))


def _table(tasks: tuple[str, ...], values: np.ndarray, form: str) -> str:
    lines = [
        "| model of ↓, on → | " + " | ".join(tasks) + " |",
        "|---" * (len(tasks) + 1) + "|",
    ]
    for i, name in enumerate(tasks):
        cells = [form.format(v) for v in values[i]]
        cells[i] = f"**{cells[i]}**"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
