"""What happens in a run, and where: records for its store and words for whoever is watching."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from equinox import is_array

from hypercrl.errors import UserError
from hypercrl.experiment.display import Display
from hypercrl.experiment.episode import Step
from hypercrl.experiment.records import (
    Cost,
    Diverged,
    Embeddings,
    End,
    Episode,
    Evaluation,
    RandomPolicy,
    Session,
    SessionTime,
    TaskTime,
)
from hypercrl.experiment.store import Store
from hypercrl.types import Learner


@dataclass
class Position:
    """How far a run is."""

    task: int = 0  # the task under way, from 0
    sessions: int = 0  # training sessions in this task; 0: it has not begun
    step: int = 0  # planned control steps in this task
    tested: int = 0  # tasks tested since this one was learnt
    peak_bytes: int = 0  # the most that the method has held in this task

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

    def random_policy(self, found: RandomPolicy) -> None:
        self._store.record(found)

    def episode(self, at: Position, step: Step, *, random: bool) -> None:
        record = Episode(
            task=at.task,
            step=at.step,
            total_step=self.total_step(at),
            episode=step.episode,
            total=step.episode_return,
            random=random,
        )
        self._store.record(record)
        self._display.episode(record.episode, record.total)

    def session(
        self, at: Position, losses: Mapping[str, float], validation: float, seconds: float
    ) -> None:
        """One training session; without data it has no losses but the validation error."""
        self._store.record(
            Session(
                task=at.task,
                step=at.step,
                total_step=self.total_step(at),
                loss=losses.get("loss"),
                first_loss=losses.get("first_loss"),
                regulariser=losses.get("regulariser"),
                validation=validation,
            )
        )
        self._store.record(SessionTime(at.task, at.step, seconds))
        self._display.session(validation)

    def require_finite(
        self, at: Position, state: Any, losses: Mapping[str, float] | None = None
    ) -> None:
        """Stop a run that diverged, which is not yet in any checkpoint, and say where."""
        what: Literal["loss", "parameters"]
        if not all(math.isfinite(loss) for loss in (losses or {}).values()):
            what = "loss"
        elif not _is_finite(state):
            what = "parameters"
        else:
            return
        self._store.record(Diverged(at.task, at.step, self.total_step(at), what))
        verb = "is" if what == "loss" else "are"
        raise UserError(
            f"The run diverged in task {at.task + 1} after {at.step} planned steps: its {what} "
            f"{verb} not finite any more. The last good checkpoint is kept; smaller steps "
            "(learning_rate) may help."
        )

    def evaluation(self, found: Evaluation) -> None:
        self._store.record(found)
        self._display.test(found.task, found.after, found.mean)

    def costs(
        self,
        at: Position,
        learner: Learner,
        state: Any,
        *,
        memory_bytes: int,
        value_bytes: int,
        evaluations: int,
    ) -> None:
        """What the method costs at a task's end, and its embeddings if it has any."""
        self._store.record(
            Cost(
                task=at.task,
                step=at.step,
                total_step=self.total_step(at),
                parameters=learner.num_parameters(state),
                bytes_per_task=learner.bytes_per_task(state) + value_bytes,
                memory_bytes=memory_bytes,
                evaluations_per_action=evaluations,
                peak_bytes=at.peak_bytes,
            )
        )
        embeddings = learner.embeddings(state)
        if embeddings is not None and np.all(np.isfinite(embeddings)):
            vectors = np.asarray(embeddings)[: at.task + 1].tolist()
            self._store.record(Embeddings(at.task, tuple(map(tuple, vectors))))

    def times(self, time: TaskTime) -> None:
        self._store.record(time)

    def end(self) -> None:
        self._store.record(End())


def _is_finite(state: Any) -> bool:
    """Whether all real numbers of what was learnt are."""
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(state) if _is_real(leaf)]
    return all(np.isfinite(array).all() for array in arrays)


def _is_real(leaf: Any) -> bool:
    return is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
