"""What ran where: `attempts.json` in each run's folder, `manifest.json` for the whole sweep.

Attempts are written by whoever holds the run's claim and by nobody else, so two sweeps on one
folder cannot disagree about a run. The manifest is put together from the attempts and replaced
as a whole.
"""

import dataclasses
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypercrl import reading, writing
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import StoredConfig
from hypercrl.reading import show

ATTEMPTS = "attempts.json"
MANIFEST = "manifest.json"
DAMAGED = ".damaged"  # what a file's name ends with once it was put aside
LOST = "The process vanished together with its machine or its launcher."

Attempt = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A run in the manifest."""

    suite: str
    method: str
    preset: str
    seed: int
    planner: str
    num_tasks: int
    state: str
    attempts: list[Attempt]


def begin_attempt(folder: Path, **where: Any) -> None:
    """Note that this process has begun to work on a run."""
    from hypercrl.experiment.config import versions

    close_attempt(folder, "lost", LOST)
    attempt = {
        "state": "running",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "start": now(),
        **where,
        "versions": versions(),
    }
    write_json(folder / ATTEMPTS, [*read_attempts(folder), attempt])


def close_attempt(folder: Path, state: str, reason: str) -> None:
    """Note how the attempt under way, if any, ended."""
    attempts = read_attempts(folder)
    if attempts and attempts[-1]["state"] == "running":
        attempts[-1] |= {"state": state, "end": now(), **({"reason": reason} if reason else {})}
        write_json(folder / ATTEMPTS, attempts)


def read_attempts(folder: Path) -> list[Attempt]:
    """All attempts at a run, the last one last."""
    try:
        found = reading.read_json(folder / ATTEMPTS, reading.LARGEST_LIST)
    except FileNotFoundError:
        return []
    if not isinstance(found, list) or not all(_is_attempt(one) for one in found):
        raise UserError(f"{show(folder / ATTEMPTS)} is damaged: it is no list of attempts.")
    return found


def failure_since(folder: Path, moment: str) -> str | None:
    """Why the last attempt at a run failed, if it ended after a moment in time."""
    attempts = read_attempts(folder)
    last = attempts[-1] if attempts else {}
    failed = last.get("state") == "failed" and str(last.get("end", "")) >= moment
    return str(last.get("reason", "")) if failed else None


def write_manifest(root: Path, states: Mapping[str, tuple[StoredConfig, str]]) -> Path:
    """Bring the manifest up to date for runs given as (configuration, state); returns its path.

    Other sweeps' runs stay in it. What the attempts at a run say goes before `state`, which
    is for runs without any.
    """
    path = root / MANIFEST
    runs = _read_runs(path)
    for name, (config, state) in states.items():
        runs[name] = dataclasses.asdict(_entry(root / name, config, state))
    write_json(path, {"updated": now(), "runs": dict(sorted(runs.items()))})
    return path


def write_json(path: Path, data: Any) -> None:
    """Replace a file as a whole, even where several processes do so at once."""
    writing.replace(path, f"{json.dumps(data, indent=1)}\n".encode(), shared=True)


def now() -> str:
    """The time in a form that sorts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(folder: Path, config: StoredConfig, state: str) -> Entry:
    try:
        attempts = read_attempts(folder)
    except UserError:
        attempts = []  # the run itself says what is wrong with its folder
    return Entry(
        suite=config.suite,
        method=config.method,
        preset=config.preset,
        seed=config.seed,
        planner=config.planner,
        num_tasks=config.num_tasks,
        state=attempts[-1]["state"] if attempts else state,
        attempts=attempts,
    )


def _is_attempt(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("state"), str)


def _read_runs(path: Path) -> dict[str, Any]:
    """The runs of other sweeps too; a damaged manifest is put aside and written anew."""
    try:
        data = reading.read_json(path, reading.LARGEST_LIST)
        if isinstance(data, dict) and isinstance(data.get("runs"), dict):
            return data["runs"]
    except FileNotFoundError:
        return {}
    except UserError:
        pass
    os.replace(path, path.with_name(f"{path.name}{DAMAGED}"))
    return {}
