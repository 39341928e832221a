"""`hypercrl.train`: a run from Python, the same as from the command line."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypercrl.errors import UserError
from hypercrl.experiment.config import RunConfig, resolve
from hypercrl.experiment.display import Display, Silent
from hypercrl.experiment.runner import Runner
from hypercrl.experiment.store import Store


def train(
    suite: str,
    method: str = "hypercrl",
    *,
    seed: int = 0,
    preset: str | None = None,
    planner: str | None = None,
    num_tasks: int | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    schedule: Mapping[str, Any] | None = None,
    learner: Mapping[str, Any] | None = None,
    planning: Mapping[str, Any] | None = None,
) -> Path:
    """Run Algorithm 1 and return the run's folder; a folder that holds part of it is continued.

    `schedule`, `learner` and `planning` change single settings of the suite's preset.
    """
    config = resolve(suite, method, preset=preset, planner=planner, num_tasks=num_tasks, seed=seed)
    config = dataclasses.replace(
        config,
        schedule=_change(config.schedule, schedule),
        learner=_change(config.learner, learner),
        planner=_change(config.planner, planning),
    )
    folder = Path(out) if out is not None else default_folder(config)
    run(config, folder, Silent(), fresh=fresh)
    return folder


def run(config: RunConfig, folder: Path, display: Display, *, fresh: bool = False) -> None:
    """Carry out, or continue, one run in its folder."""
    store = Store(folder, config, fresh=fresh)
    try:
        Runner(config, store, display).run()
    except OSError as error:
        raise UserError(
            f"The run in {folder} stopped because it could not be saved ({error.strerror}); "
            "make room and run the same command again to continue from its last checkpoint."
        ) from error
    finally:
        display.close()
        store.close()


def default_folder(config: RunConfig) -> Path:
    """Where a run goes unless told otherwise."""
    return Path("runs") / f"{config.suite}-{config.method}-{config.preset}-s{config.seed}"


def _change(config: Any, changes: Mapping[str, Any] | None) -> Any:
    """A frozen dataclass with some fields changed; an unknown name lists the known ones."""
    known = [field.name for field in dataclasses.fields(config)]
    for name in changes or {}:
        if name not in known:
            raise UserError(
                f"{type(config).__name__} has no setting '{name}'; it has: {', '.join(known)}."
            )
    return dataclasses.replace(config, **(changes or {}))
