"""How far a run is, read from its records alone."""

from dataclasses import dataclass
from pathlib import Path

from hypercrl.experiment import records
from hypercrl.experiment.records import Diverged, End, Episode, Placed, Session
from hypercrl.experiment.run_folder import StoredConfig, read_config, read_records
from hypercrl.reading import show


@dataclass(frozen=True)
class Progress:
    """The state of one run's folder."""

    folder: Path
    config: StoredConfig
    task: int  # tasks begun
    total_step: int
    last_return: float | None
    model_error: float | None  # validation error of the last training session
    finished: bool
    diverged: bool = False

    @property
    def state(self) -> str:
        """In one word."""
        if self.diverged:
            return "diverged"
        return "finished" if self.finished else "unfinished"

    def row(self, root: Path) -> tuple[str, ...]:
        """Cells for a table of runs."""
        config = self.config
        return (
            show(self.folder.relative_to(root)),
            config.suite,
            config.method,
            str(config.seed),
            f"{self.task}/{config.num_tasks}",
            f"{self.total_step:,}/{config.total_steps:,}",
            "–" if self.last_return is None else f"{self.last_return:.1f}",
            self.state,
        )


def read_progress(folder: Path) -> Progress:
    """Reads the records of a run that may still be going on."""
    config = read_config(folder)
    task, total_step, last_return, model_error = 0, 0, None, None
    finished = diverged = False
    for record in read_records(folder, [records.METRICS], num_tasks=config.num_tasks):
        if isinstance(record, Placed):
            total_step = max(total_step, record.total_step)
        if isinstance(record, Episode):
            task, last_return = record.task + 1, record.total
        elif isinstance(record, Session):
            model_error = record.validation
        elif isinstance(record, End):
            finished = True
        elif isinstance(record, Diverged):
            diverged = True
    return Progress(folder, config, task, total_step, last_return, model_error, finished, diverged)
