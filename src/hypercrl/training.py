"""`hypercrl.train` and `extend`: a run from Python, the same as from the command line."""

import contextlib
import dataclasses
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from hypercrl.errors import UserError, boundary, printable
from hypercrl.experiment.actor import check_reward
from hypercrl.experiment.config import RunConfig, change, resolve
from hypercrl.experiment.display import Display, Silent, for_console
from hypercrl.experiment.rehearsal import rehearse, require_memory
from hypercrl.experiment.run_folder import CONFIG, read_config
from hypercrl.experiment.runner import CHECKPOINT_SECONDS, AfterTask, Runner
from hypercrl.experiment.store import Callback, Store

LONGEST_NAME = 200  # letters of a folder's name


@boundary()
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
    display: Display | bool = False,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Run Algorithm 1 and return the run's folder; a folder that holds part of it is continued.

    `schedule`, `learner`, `planning` and `critic` change single settings of the suite's preset,
    such as `schedule={"updates": 100}` or `learner={"training.anneal": True}`; `fresh` deletes
    what the folder holds of the run first. Whatever goes wrong raises `UserError` with a sentence.

    `display` shows the run as the command line does, or in a way of one's own. Each of the
    `callbacks` is called with every record (`hypercrl.experiment.records`) once it is written;
    one that raises ends the run, which can be continued.
    """
    num_tasks = None if num_tasks is None else _whole("num_tasks", num_tasks)
    config = resolve(
        suite,
        method,
        preset=preset,
        planner=planner,
        hypernet=hypernet,
        regulariser=regulariser,
        num_tasks=num_tasks,
        seed=_whole("seed", seed),
    )
    given = {"schedule": schedule, "learner": learner, "planning": planning, "critic": critic}
    config = change(config, _changes(given))
    folder = Path(out) if out is not None else default_folder(config)
    run(
        config,
        folder,
        _display(config, display),
        fresh=fresh,
        checkpoint_seconds=checkpoint_seconds,
        wandb=wandb,
        callbacks=callbacks,
    )
    return folder


@boundary()
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
    config = dataclasses.replace(config, num_tasks=_whole("num_tasks", num_tasks))
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
    callbacks: Sequence[Callback] = (),
) -> None:
    """Carry out, or continue, one run in its folder.

    `after_task(t)` is called when task t has been learnt and the checkpoint says so, and each of
    the `callbacks` with every record.
    """
    with contextlib.closing(display):
        _check(config, checkpoint_seconds)
        if fresh and (folder / CONFIG).exists():
            rehearse(config)  # before anything is deleted
        with contextlib.closing(Store(folder, config, fresh=fresh, wandb=wandb)) as store:
            store.callbacks = tuple(callbacks)
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


def _display(config: RunConfig, wanted: Display | bool) -> Display:
    if isinstance(wanted, Display):
        return wanted
    return for_console(config, Console()) if wanted else Silent()


def default_folder(config: RunConfig) -> Path:
    """Where a run goes unless told otherwise."""
    name = f"{config.suite}-{config.method}-{config.preset}-s{config.seed}"
    return Path("runs") / require_name(name)


def require_name(name: str) -> str:
    """The name of a folder, which is neither a path nor anything that a terminal would obey."""
    if not name.isprintable() or "/" in name or "\\" in name or len(name) > LONGEST_NAME:
        raise UserError(
            f"'{printable(name)[:LONGEST_NAME]}' cannot be the name of a folder; it may have up to "
            f"{LONGEST_NAME} letters and no slash."
        )
    return name


def _check(config: RunConfig, checkpoint_seconds: float) -> None:
    """Find out now what would otherwise stop the run in its third task."""
    if not (isinstance(checkpoint_seconds, int | float) and checkpoint_seconds >= 0):
        raise UserError(f"checkpoint_seconds cannot be {checkpoint_seconds}.")
    suite = config.build_suite()
    require_memory(config, suite)
    for task in suite.tasks:
        check_reward(task, suite.spec)


def _whole(name: str, value: Any) -> int:
    """A whole number of any kind, NumPy's for instance, as Python's own."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise UserError(f"{name} must be a whole number and not {value!a}.") from error


def _changes(parts: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """Settings under their whole names; numbers and arrays of NumPy as Python's own."""
    found = {}
    for part, new in parts.items():
        if not isinstance(new or {}, Mapping):
            raise UserError(f"'{part}' must map names of settings to values.")
        for name, value in (new or {}).items():
            plain = isinstance(value, np.generic | np.ndarray)
            found[f"{part}.{name}"] = value.tolist() if plain else value
    return found
