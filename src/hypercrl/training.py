"""`hypercrl.train` and `extend`: a run from Python, the same as from the command line."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypercrl.errors import UserError
from hypercrl.experiment.actor import check_reward
from hypercrl.experiment.config import RunConfig, change, resolve
from hypercrl.experiment.display import Display, Silent
from hypercrl.experiment.run_folder import read_config
from hypercrl.experiment.runner import CHECKPOINT_SECONDS, AfterTask, Runner
from hypercrl.experiment.store import Store


def train(
    suite: str,
    method: str = "hypercrl",
    *,
    seed: int = 0,
    preset: str | None = None,
    planner: str | None = None,
    hypernet: str | None = None,
    regulariser: str | None = None,
    num_tasks: int | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    schedule: Mapping[str, Any] | None = None,
    learner: Mapping[str, Any] | None = None,
    planning: Mapping[str, Any] | None = None,
    critic: Mapping[str, Any] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    wandb: bool = False,
) -> Path:
    """Run Algorithm 1 and return the run's folder; a folder that holds part of it is continued.

    `schedule`, `learner`, `planning` and `critic` change single settings of the suite's preset,
    such as `schedule={"updates": 100}` or `learner={"training.anneal": True}`; `fresh` deletes
    what the folder holds of the run first.
    """
    config = resolve(
        suite,
        method,
        preset=preset,
        planner=planner,
        hypernet=hypernet,
        regulariser=regulariser,
        num_tasks=num_tasks,
        seed=seed,
    )
    given = {"schedule": schedule, "learner": learner, "planning": planning, "critic": critic}
    changes = {f"{part}.{n}": v for part, new in given.items() for n, v in (new or {}).items()}
    config = change(config, changes)
    folder = Path(out) if out is not None else default_folder(config)
    run(config, folder, Silent(), fresh=fresh, checkpoint_seconds=checkpoint_seconds, wandb=wandb)
    return folder


def extend(
    folder: str | Path,
    num_tasks: int,
    *,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    wandb: bool = False,
) -> Path:
    """Let a run, finished or not, go on until it has learnt `num_tasks` tasks of its suite.

    What it has learnt stays as it is, and it ends as a run does that was as long from the start.
    `append_tasks` gives a suite more tasks than its own.
    """
    folder = Path(folder)
    config = RunConfig.from_stored(read_config(folder))
    config = dataclasses.replace(config, num_tasks=num_tasks)
    run(config, folder, Silent(), checkpoint_seconds=checkpoint_seconds, wandb=wandb)
    return folder


def run(
    config: RunConfig,
    folder: Path,
    display: Display,
    *,
    fresh: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    wandb: bool = False,
    after_task: AfterTask | None = None,
) -> None:
    """Carry out, or continue, one run in its folder.

    `after_task(t)` is called when task t has been learnt and the checkpoint says so.
    """
    with contextlib.closing(display):
        _check(config, checkpoint_seconds)  # before anything is deleted
        with contextlib.closing(Store(folder, config, fresh=fresh, wandb=wandb)) as store:
            if store.replaced:
                display.say(f"starting over: the run that was in {folder} has been deleted")
            if store.extended:
                display.say(f"the run had {config.num_tasks - store.extended} tasks and goes on")
            Runner(
                config,
                store,
                display,
                checkpoint_seconds=checkpoint_seconds,
                after_task=after_task,
            ).run()


def default_folder(config: RunConfig) -> Path:
    """Where a run goes unless told otherwise."""
    return Path("runs") / f"{config.suite}-{config.method}-{config.preset}-s{config.seed}"


def _check(config: RunConfig, checkpoint_seconds: float) -> None:
    """Find out now what would otherwise stop the run in its third task."""
    if not checkpoint_seconds >= 0:
        raise UserError(f"checkpoint_seconds cannot be {checkpoint_seconds}.")
    suite = config.build_suite()
    for task in suite.tasks:
        check_reward(task, suite.spec)
