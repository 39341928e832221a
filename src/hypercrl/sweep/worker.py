"""The process behind a job: `python -m hypercrl.sweep.worker`, used by `hypercrl.sweep.job`."""

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO

from hypercrl.errors import UserError, advise_sweep, boundary, in_one_sentence, is_about_space
from hypercrl.experiment.records import parse
from hypercrl.experiment.run_folder import CONFIG
from hypercrl.reading import show
from hypercrl.registry import load_plugin
from hypercrl.sweep.job import LOG, Assignment, Job, Outcome
from hypercrl.sweep.location import is_open_elsewhere
from hypercrl.sweep.manifest import begin_attempt, close_attempt

LOCK_SECONDS = 30.0  # for the process of an attempt that was given up to let go of the folder


def main() -> None:
    answer = _divert_output()
    assigned = parse(Assignment, json.loads(sys.stdin.readline()))
    threading.Thread(target=_follow_lifeline, daemon=True).start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if assigned.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {assigned.core})
    outcome = _attempt(assigned)
    with answer:
        json.dump(dataclasses.asdict(outcome), answer)
    # Threads of a renderer or of TensorBoard must not hold up the end.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _attempt(assigned: Assignment) -> Outcome:
    """Work on the run and turn whatever happens into an outcome."""
    folder = Path(assigned.folder)
    try:
        if not _is_free(folder):
            return Outcome("elsewhere")
        begin_attempt(folder, core=assigned.core)
        note = _work(assigned.job, folder)
        outcome = Outcome("finished", note=note)
    except KeyboardInterrupt:
        outcome = Outcome("stopped")
    except (Exception, SystemExit) as error:
        if isinstance(error, UserError) and is_open_elsewhere(folder):
            return Outcome("elsewhere")
        with contextlib.suppress(OSError):  # the log is on the disk that may be full
            traceback.print_exc()
        hint = "" if isinstance(error, UserError) else f" See {show(folder / LOG)}."
        told = advise_sweep(in_one_sentence(error)) + hint
        outcome = Outcome("failed", told, full=is_about_space(error))
    try:
        close_attempt(folder, outcome.state, outcome.reason)
    except OSError as error:
        if outcome.state == "finished":
            raise
        # Whoever started this process notes it as soon as there is room.
        outcome = dataclasses.replace(outcome, full=outcome.full or is_about_space(error))
    return outcome


def _work(job: Job, folder: Path) -> str:
    """Carry out what is left of the run; returns what went wrong besides, if anything."""
    from rich.console import Console

    from hypercrl.experiment.config import RunConfig
    from hypercrl.experiment.display import PlainLines
    from hypercrl.experiment.progress import read_progress
    from hypercrl.experiment.runner import CHECKPOINT_SECONDS
    from hypercrl.experiment.video import Filming
    from hypercrl.training import run

    for plugin in job.plugins:
        with boundary(f"The plugin '{plugin}'", exits=True):
            load_plugin(plugin)
    config = RunConfig.from_stored(job.config)
    filming = Filming(folder, config.num_tasks) if job.videos else None
    if not (os.path.lexists(folder / CONFIG) and read_progress(folder).finished):
        console = Console(file=sys.stderr, width=200)
        run(
            config,
            folder,
            PlainLines(config, console),
            after_task=filming,
            wandb=job.wandb,
            checkpoint_seconds=(
                CHECKPOINT_SECONDS if job.checkpoint_seconds is None else job.checkpoint_seconds
            ),
        )
    elif filming is not None:
        filming(config.num_tasks - 1)
    return filming.problem if filming is not None else ""


def _is_free(folder: Path) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while is_open_elsewhere(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _divert_output() -> IO[str]:
    """Keep standard output for the answer; what is printed goes to the log."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    return answer


def _follow_lifeline() -> None:
    """End with whoever started this process. The store is safe against an end at any moment."""
    while sys.stdin.read(4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
