"""One run as a process of its own: started, followed and, where need be, stopped.

A crash, a killed process or exhausted memory then cannot hurt any other run. The process gets
its job on standard input, which stays open as its lifeline: the worker ends when whoever
started it is gone. It answers with its outcome on standard output; everything else that it
prints goes to the run's log.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hypercrl import writing
from hypercrl.errors import describe, is_about_space
from hypercrl.experiment.records import parse
from hypercrl.experiment.run_folder import StoredConfig
from hypercrl.sweep.location import ClaimLostError, Location, open_location
from hypercrl.sweep.manifest import close_attempt
from hypercrl.threads import one_thread

LOG = "run.log"
POLL_SECONDS = 0.1
STOP_SECONDS = 15.0  # a training session under way ends before its process does


@dataclass(frozen=True)
class Job:
    """A run to carry out, in plain data that travels to any machine."""

    name: str  # of its folder
    config: StoredConfig
    out: str  # the sweep's folder or URL
    plugins: tuple[str, ...] = ()
    videos: bool = False
    checkpoint_seconds: float | None = None  # the runner's own if None
    wandb: bool = False
    claim: str = ""  # by which the sweep holds the run; the results are kept while it does


@dataclass(frozen=True)
class Assignment:
    """What the process of a job is told."""

    job: Job
    folder: str
    core: int | None  # to run on; any if None


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    state: str  # "finished", "failed", "elsewhere" or "stopped"
    reason: str = ""  # of a failure
    note: str = ""  # what a person should know though the run is fine
    full: bool = False  # whether it failed because the disk was full; another machine's may not be


class RunProcess:
    """A job's process."""

    def __init__(
        self, job: Job, *, core: int | None = None, environment: Mapping[str, str] | None = None
    ):
        self._stopping = False
        with contextlib.ExitStack() as stack:
            location: Location = open_location(job.out)
            stack.callback(location.close)
            self._workspace = stack.enter_context(location.workspace(job.name, job.claim))
            folder = self._workspace.folder
            log = stack.enter_context(writing.open_in_place(folder / LOG, at_end=True))
            self._process = subprocess.Popen(
                # -P: what lies in the current folder, a random.py for instance, is not imported.
                [sys.executable, "-P", "-m", "hypercrl.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **one_thread(os.environ), **(environment or {})},
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which stops its runs
            )
            self._opened = stack.pop_all()
        assignment = Assignment(job, str(folder.resolve()), core)
        self._write(json.dumps(dataclasses.asdict(assignment)) + "\n")

    def poll(self) -> Outcome | None:
        """The outcome once the process has ended."""
        try:
            self._workspace.save()
        except ClaimLostError:
            self.kill()  # another sweep does this run now
        if self._process.poll() is None:
            return None
        with self._opened:
            outcome = self._read_outcome()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                close_attempt(self._workspace.folder, outcome.state, outcome.reason)
                self._workspace.save(final=True)
            except ClaimLostError:
                return Outcome("elsewhere")
            except Exception as error:  # of whichever store it is
                reason = outcome.reason or f"The results could not be saved: {describe(error)}."
                return Outcome("failed", reason, full=outcome.full or is_about_space(error))
        return outcome

    def stop(self) -> None:
        """Ask the process to end; what it has done since its last checkpoint is done again."""
        self._stopping = True
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def _read_outcome(self) -> Outcome:
        stdout: IO[bytes] | None = self._process.stdout
        assert stdout is not None
        text = stdout.read()
        with contextlib.suppress(ValueError):  # the process ended while it was answering
            return parse(Outcome, json.loads(text))
        if self._stopping:
            return Outcome("stopped")
        return Outcome("failed", _explain(self._process.returncode, self._workspace.folder / LOG))

    def _write(self, text: str) -> None:
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        # A process that died at once is told by its exit status, later.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(text.encode())
            stdin.flush()


def run_job(job: Job) -> Outcome:
    """Carry out a job and wait for it."""
    try:
        process = RunProcess(job)
    except OSError as error:
        reason = f"The run could not be started: {describe(error)}."
        return Outcome("failed", reason, full=is_about_space(error))
    try:
        while (outcome := process.poll()) is None:
            time.sleep(POLL_SECONDS)
    except BaseException:
        stop_all([process])
        raise
    return outcome


def stop_all(processes: list[RunProcess]) -> None:
    """Stop processes side by side, and do not wait for ever."""
    for process in processes:
        process.stop()
    deadline = time.monotonic() + STOP_SECONDS
    running = list(processes)
    while running:
        if time.monotonic() > deadline:
            for process in running:
                process.kill()
        running = [process for process in running if process.poll() is None]
        time.sleep(POLL_SECONDS)


def _explain(status: int, log: Path) -> str:
    if status >= 0:
        return f"The process ended with status {status} and no word why; see {log}."
    name = signal.Signals(-status).name
    hint = ", as happens when memory runs out" if -status == signal.SIGKILL else ""
    return f"The process was killed by {name}{hint}."
