"""Test the models of a run again, with as many episodes as wanted.

usage: hypercrl test RUN [--task TASK] [--episodes N] [--out FILE] [--plugin FILE]

RUN is the folder of a run, or the name of a suite that a trained controller comes with. Every
task is tested with its own model and the run's planner, from the same start states as in the
run's own tests. Tasks count from 1, and names work too.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError
from hypercrl.threads import one_thread

if TYPE_CHECKING:
    from hypercrl.experiment.records import Evaluation


@dataclass(frozen=True)
class Options(PluginOptions):
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run's folder, or a suite that a trained controller comes with."""
    task: str = ""
    """Which task to test, counted from 1 or by its name; every task learnt if not given."""
    episodes: int = 10
    """Test episodes of a task."""
    out: Path | None = None
    """Where the records go too, one line of JSON a task."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl test", doc=__doc__)
    os.environ.update(one_thread(os.environ))
    _test(options)


def _test(options: Options) -> None:
    from hypercrl.experiment.controller import load
    from hypercrl.experiment.testing import Tester

    if options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}.")
    controller = load(options.run)
    controller.check_learnt(1)
    chosen = [controller.find(options.task)] if options.task else range(controller.num_learnt)
    tester = Tester(controller.config, controller.suite)
    with _records(options.out) as record:
        for task in chosen:
            found = tester.test(
                controller.model(task),
                controller.value(task),
                task,
                after=task,
                phase="final",
                step=0,
                total_step=0,
                num_episodes=options.episodes,
            )
            record(found)
            print(f"task {task + 1} ({controller.suite.tasks[task].name}): {_summary(found)}")


@contextlib.contextmanager
def _records(path: Path | None) -> "Iterator[Callable[[Evaluation], None]]":
    """What to call with a record; the file is opened first, as the tests behind it take long."""
    from hypercrl.experiment.records import to_line

    if path is None:
        yield lambda record: None
        return
    try:
        with path.open("a") as file:
            yield lambda record: print(to_line(record), file=file, flush=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from error


def _summary(found: "Evaluation") -> str:
    parts = [f"return {found.mean:.2f}"]
    if found.successes is not None:
        parts.append(f"success {sum(found.successes)} of {len(found.successes)}")
    parts += [f"{name} {fmean(values):.4g}" for name, values in found.measures.items()]
    return ", ".join(parts)
