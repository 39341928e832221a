"""How far a run is, read from its records alone."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypercrl.experiment.store import read_config


@dataclass(frozen=True)
class Progress:
    """The state of one run's folder."""

    folder: Path
    config: dict[str, Any]
    task: int  # tasks begun
    total_step: int
    last_return: float | None
    model_error: float | None  # validation error of the last training session
    finished: bool

    def row(self, root: Path) -> tuple[str, ...]:
        """Cells for a table of runs."""
        config = self.config
        steps = config["num_tasks"] * config["schedule"]["steps_per_task"]
        return (
            str(self.folder.relative_to(root)),
            config["suite"],
            config["method"],
            str(config["seed"]),
            f"{self.task}/{config['num_tasks']}",
            f"{self.total_step:,}/{steps:,}",
            "–" if self.last_return is None else f"{self.last_return:.1f}",
            "finished" if self.finished else "unfinished",
        )


def read_progress(folder: Path) -> Progress:
    """Reads the records of a run that may still be going on."""
    config = read_config(folder)
    task, total_step, last_return, model_error, finished = 0, 0, None, None, False
    path = folder / "metrics.jsonl"
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line of a run under way may be half written
        finished = finished or record["kind"] == "end"
        if record["kind"] == "episode":
            task, last_return = record["task"] + 1, record["total"]
        if record["kind"] == "session":
            model_error = record["validation"]
        total_step = max(total_step, record.get("total_step", 0))
    return Progress(folder, config, task, total_step, last_return, model_error, finished)
