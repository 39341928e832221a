"""Sweeps from the command line on the toy suites, for the tests of both launchers."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PLUGIN = Path(__file__).parent / "plugins" / "toy_suite.py"
METHODS = ("finetune", "single")
FOUR_RUNS = ("--method", *METHODS, "--seeds", "2")
EIGHT_RUNS = ("--method", *METHODS, "--seeds", "4")
PATIENCE = 300.0  # seconds; only a test that fails anyway waits that long

_TRAIN_ALL = """
import sys
from hypercrl.cli import main
plugin, out, *runs = sys.argv[1:]
for method, seed in (run.split() for run in runs):
    main(["train", "toy", method, "--seed", seed, "--plugin", plugin,
          "--out", f"{out}/toy-{method}-custom-s{seed}"])
"""


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", **variables}


def start_sweep(
    out: Path | str, *args: str, before: tuple[str, ...] = (), **variables: str
) -> subprocess.Popen:
    """`hypercrl sweep` on the toy suites, in the background, with words `before` the command."""
    command = [sys.executable, "-m", "hypercrl.cli", "sweep", "--plugin", str(PLUGIN)]
    return subprocess.Popen(
        [*before, *command, "--out", str(out), *args],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # What is started in the background of a shell script ignores Ctrl-C, and its children too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def sweep(out: Path | str, *args: str, **variables: str) -> tuple[int, str]:
    """The exit status of a sweep and everything that it printed."""
    process = start_sweep(out, *args, **variables)
    output, _ = process.communicate()
    return process.returncode, output


@functools.cache
def single_runs(num_seeds: int = 2) -> dict[str, bytes]:
    """The metrics of every method and seed, by the runs' names, each made by `hypercrl train`."""
    with tempfile.TemporaryDirectory() as out:
        runs = [f"{method} {seed}" for method in METHODS for seed in range(num_seeds)]
        command = [sys.executable, "-c", _TRAIN_ALL, str(PLUGIN), out, *runs]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return metrics(Path(out))


def metrics(folder: Path) -> dict[str, bytes]:
    """What every run below a folder recorded."""
    return {path.parent.name: path.read_bytes() for path in folder.glob("*/metrics.jsonl")}


def attempts(folder: Path, name: str) -> list[dict]:
    path = folder / name / "attempts.json"
    return json.loads(path.read_text()) if path.exists() else []


def read_manifest(folder: Path) -> dict[str, dict]:
    return json.loads((folder / "manifest.json").read_text())["runs"]


def wait_until(condition: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Wait for something that a process brings about; it must not end before."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        if process is not None:
            assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
