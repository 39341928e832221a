"""What happens in a run, and where: lines for its records and words for whoever is watching."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hypercrl.experiment.actor import Step
from hypercrl.experiment.display import Display
from hypercrl.experiment.store import Store
from hypercrl.types import Learner


@dataclass
class Position:
    """How far a run is."""

    task: int = 0  # the task under way, from 0
    sessions: int = 0  # training sessions in this task; 0: it has not begun
    step: int = 0  # planned control steps in this task
    tested: int = 0  # tasks tested since this one was learnt

    def __post_init__(self):
        if not all(isinstance(count, int) and count >= 0 for count in vars(self).values()):
            raise ValueError(f"{self} is not a place in a run.")


class Recorder:
    """Writes each event with its place to the store, and tells the display."""

    def __init__(self, store: Store, display: Display, steps_per_task: int):
        self._store = store
        self._display = display
        self._steps_per_task = steps_per_task

    def total_step(self, at: Position) -> int:
        """Planned control steps since the run began."""
        return at.task * self._steps_per_task + at.step

    def step(self, at: Position) -> None:
        self._display.advance(at.task, at.step)

    def episode(self, at: Position, step: Step, *, random: bool) -> None:
        outcome = {"episode": step.episode, "total": step.episode_return, "random": random}
        self._record("episode", at, at.task, **outcome)
        self._display.episode(step.episode, step.episode_return)

    def session(self, at: Position, losses: dict[str, float], seconds: float) -> None:
        """One training session; without data it has no losses but the validation error."""
        self._record("session", at, at.task, **{"loss": None, "regulariser": None, **losses})
        self._store.record_time("session", task=at.task, step=at.step, seconds=seconds)
        self._display.session(losses["validation"])

    def evaluation(
        self, at: Position, task: int, after: int, phase: str, result: dict[str, Any]
    ) -> None:
        self._record("evaluation", at, task, after=after, phase=phase, **result)
        self._display.test(task, after, float(np.mean(result["returns"])))

    def costs(
        self, at: Position, learner: Learner, state: Any, *, memory_bytes: int, evaluations: int
    ) -> None:
        """What the method costs at a task's end, and its embeddings if it has any."""
        self._record(
            "cost",
            at,
            at.task,
            parameters=learner.num_parameters(state),
            bytes_per_task=learner.bytes_per_task(state),
            memory_bytes=memory_bytes,
            evaluations_per_action=evaluations,
        )
        embeddings = learner.embeddings(state)
        if embeddings is not None and np.all(np.isfinite(embeddings)):
            vectors = np.asarray(embeddings)[: at.task + 1].tolist()
            self._store.record("embeddings", after=at.task, vectors=vectors)

    def times(self, at: Position, seconds: dict[str, float]) -> None:
        self._store.record_time("task", task=at.task, **seconds)

    def end(self) -> None:
        self._store.record("end")

    def _record(self, kind: str, at: Position, task: int, **values: Any) -> None:
        place = {"task": task, "step": at.step, "total_step": self.total_step(at)}
        self._store.record(kind, **place, **finite(values))


def finite(value: Any) -> Any:
    """JSON has no infinity: a number that blew up, at any depth, is recorded as null."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
