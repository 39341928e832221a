"""A run in a process of its own, killed again and again, ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tiny
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.store import CHECKPOINT

TESTS = Path(__file__).parent
ARGUMENTS = [
    *("train", "tiny", "hypercrl", "--checkpoint-seconds", "0"),
    *("--steps-per-task", "60", "--update-every", "12", "--eval-every", "12"),
]
CODE = """
import sys
import tiny
from hypercrl.cli import main
with tiny.registered():
    main(sys.argv[1:])
"""


class Launcher:
    """Starts `hypercrl train` on a tiny suite; later starts find everything compiled."""

    def __init__(self, cache: Path):
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }

    def start(self, folder: Path) -> subprocess.Popen:
        command = [sys.executable, "-c", CODE, *ARGUMENTS, "--out", str(folder)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self._environment, stdout=pipe, stderr=pipe, text=True)

    def finish(self, folder: Path) -> str:
        process = self.start(folder)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        return output

    def kill(self, folder: Path, *, after: float, in_the_run: bool) -> None:
        """Start, and kill some seconds after the start or after the run's next checkpoint."""
        before = _stamp(folder)
        process = self.start(folder)
        while in_the_run and process.poll() is None and _stamp(folder) == before:
            time.sleep(0.001)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was over too soon"


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    return Launcher(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def uninterrupted(launcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    launcher.finish(folder)
    return folder


def _stamp(folder: Path) -> int:
    try:
        return (folder / CHECKPOINT).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def check_kills(launcher, uninterrupted, folder, count):
    rng = np.random.default_rng(count)
    for number in range(count):
        if number % 4 == 3:
            launcher.kill(folder, after=rng.uniform(0.0, 1.0), in_the_run=False)
        else:
            # Short against the run, so that it lasts for all of them, and long against one step
            # with its checkpoint, so that any part of these may be hit.
            launcher.kill(folder, after=rng.uniform(0.0, 0.05), in_the_run=True)
    assert not read_progress(folder).finished
    assert "continuing at task" in launcher.finish(folder)
    tiny.assert_same_run(folder, uninterrupted)
    assert "finished before" in launcher.finish(folder)
    tiny.assert_same_run(folder, uninterrupted)


def test_run_killed_a_few_times_ends_the_same(launcher, uninterrupted, tmp_path):
    check_kills(launcher, uninterrupted, tmp_path, count=4)


@pytest.mark.slow
def test_run_killed_twenty_times_ends_the_same(launcher, uninterrupted, tmp_path):
    check_kills(launcher, uninterrupted, tmp_path, count=20)
