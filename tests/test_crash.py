"""A run in a process of its own, killed again and again, ends as if nothing had happened."""

import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

import forked
import tiny
from hypercrl.experiment import checkpoint
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.run_folder import CHECKPOINT

ARGUMENTS = [
    *("train", "tiny", "hypercrl", "--checkpoint-seconds", "0"),
    *("--steps-per-task", "120", "--update-every", "12", "--eval-every", "12"),
]


class Launcher:
    """Starts `hypercrl train` on a tiny suite; later starts find everything compiled."""

    def __init__(self, folder: Path):
        self._output = folder / "output"

    def start(self, folder: Path, *more: str) -> BaseProcess:
        self._output.unlink(missing_ok=True)
        return forked.start([*ARGUMENTS, "--out", str(folder), *more], self._output)

    def finish(self, folder: Path, *more: str) -> str:
        process = self.start(folder, *more)
        process.join()
        output = self._output.read_text()
        assert process.exitcode == 0, output
        return output

    def kill(self, folder: Path, awaited: Path | None, delay: float, *more: str) -> None:
        """Start, wait until a file is written if one is awaited, then a moment, and kill."""
        before = awaited and _stamp(awaited)
        process = self.start(folder, *more)
        while awaited and process.is_alive() and _stamp(awaited) in (before, None):
            time.sleep(0.0002)
        time.sleep(delay)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, self._output.read_text()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    return Launcher(tmp_path_factory.mktemp("launched"))


@pytest.fixture(scope="module")
def uninterrupted(launcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    launcher.finish(folder)
    return folder


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def check_kills(launcher, uninterrupted, folder, count, *more):
    """A third of the kills each in the run, in the middle of a checkpoint, and anywhere at all."""
    rng = np.random.default_rng(count)
    path = folder / CHECKPOINT
    for number in range(count):
        if number % 3 == 0:
            launcher.kill(folder, path, rng.uniform(0.0, 0.05), *more)
        elif number % 3 == 1:
            launcher.kill(folder, checkpoint.partial(path), 0.0, *more)
        else:
            launcher.kill(folder, None, rng.uniform(0.0, 2.0), *more)
    assert not read_progress(folder).finished
    assert "continuing at task" in launcher.finish(folder, *more)
    tiny.assert_same_run(folder, uninterrupted)


def test_run_killed_a_few_times_ends_the_same(launcher, uninterrupted, tmp_path):
    check_kills(launcher, uninterrupted, tmp_path, count=3)


@pytest.mark.slow
def test_run_killed_a_hundred_times_ends_the_same(launcher, tmp_path):
    longer = ("--steps-per-task", "480")
    launcher.finish(tmp_path / "uninterrupted", *longer)
    check_kills(launcher, tmp_path / "uninterrupted", tmp_path / "killed", 100, *longer)


@pytest.mark.slow
def test_extended_run_killed_again_and_again_ends_like_a_longer_one(
    launcher, uninterrupted, tmp_path
):
    """A finished run of two tasks goes on with a third, on the command line."""
    more = ("--tasks", "3")
    folder = shutil.copytree(uninterrupted, tmp_path / "extended")
    assert read_progress(folder).finished
    for delay in (0.0, 0.02, 0.05, 0.1):
        launcher.kill(folder, folder / CHECKPOINT, delay, *more)
    assert not read_progress(folder).finished
    assert "continuing at task 3" in launcher.finish(folder, *more)
    launcher.finish(tmp_path / "straight", *more)
    tiny.assert_same_run(folder, tmp_path / "straight")
