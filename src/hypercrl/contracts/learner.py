"""What every method promises, tried on a sequence of five conflicting linear systems."""

import dataclasses
from typing import Any

import jax
import numpy as np

from hypercrl.contracts.promises import Promise, require
from hypercrl.contracts.sequence import (
    NUM_LEARNT,
    NUM_TASKS,
    SPEC,
    History,
    data,
    error,
    key,
    learn_task,
    predictions,
)
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.model import Network
from hypercrl.experiment import checkpoint
from hypercrl.learning.training import Training
from hypercrl.registry import learners
from hypercrl.types import Learner

SETTINGS = {
    "network": Network(hidden=(24, 24), scale_targets=True),
    "training": Training(batch_size=32),
    "hypernet": FullHypernet(hidden=(12,)),
    "learning_rate": 3e-3,
}
"""What a method is tried with, if it has such settings; everything else is its own."""

OPTIMIZER = "optimizer"  # in the name of what starts anew with every task


def make(method: str) -> Learner:
    """A registered method, small and quick."""
    factory = learners.get(method)
    own = {field.name for field in dataclasses.fields(factory)}
    return factory(**{name: value for name, value in SETTINGS.items() if name in own})


def learns_the_task_under_way(history: History) -> None:
    """A model that was just learnt predicts better than "nothing changes"."""
    for task, state in enumerate(history.finished):
        found = error(history.learner, state, task)
        require(
            found < 1, f"The error on task {task + 1}, just learnt, is {found:.3g} of the change."
        )


def tasks_do_not_depend_on_what_was_asked_before(history: History) -> None:
    """A task's prediction does not depend on which other tasks were asked for before."""
    learner, state = history.learner, history.finished[-1]
    forth = {task: predictions(learner, state, task) for task in range(NUM_LEARNT)}
    back = {task: predictions(learner, state, task) for task in reversed(range(NUM_LEARNT))}
    for task in range(NUM_LEARNT):
        same = np.array_equal(forth[task], back[task])
        require(same, f"Task {task + 1} is predicted in one way and then in another.")


def nothing_compiles_after_the_second_task(history: History) -> None:
    """A later task runs the functions that the first two have compiled."""
    for task, compiled in enumerate(history.compiled[2:], start=3):
        require(compiled == 0, f"Task {task} compiled {compiled} functions anew.")


def learning_leaves_its_arguments_alone(history: History) -> None:
    """State passes through: the one that was handed in is the same afterwards.

    The runner may keep it for a checkpoint.
    """
    h = history
    before = checkpoint.flatten(h.started[1])
    h.learner.update(h.started[1], data(1), h.views[1], num_updates=3, key=key(0))
    after = checkpoint.flatten(h.started[1])
    for name in before:
        same = np.array_equal(before[name], after[name])
        require(same, f"'{name}' of the state that was handed in has changed.")


def declared_bytes_are_those_that_matter(history: History) -> None:
    """The bytes a task are those of every row whose change would change a prediction."""
    h = history
    state, num_old = h.finished[1], 2
    leaves, structure = jax.tree.flatten(state)
    truth = _what_follows(h, state, num_old)
    kept = 0
    for i, leaf in enumerate(leaves):
        if leaf.ndim == 0 or len(leaf) != NUM_TASKS:
            continue
        changed = [*leaves[:i], leaf.at[num_old - 1].add(1.0), *leaves[i + 1 :]]
        follows = _what_follows(h, jax.tree.unflatten(structure, changed), num_old)
        if not np.array_equal(follows, truth):
            kept += leaf[0].nbytes
    declared = h.learner.bytes_per_task(state)
    require(
        kept == declared,
        f"bytes_per_task says {declared}, but {kept} bytes of a finished task matter later.",
    )


def _what_follows(h: History, state: Any, num_old: int) -> np.ndarray:
    """Predictions of all tasks, before and after another task is learnt."""
    learner = h.learner
    now = [predictions(learner, state, task) for task in range(num_old)]
    later = learner.start_task(state, num_old, key=key(0))
    later, _ = learner.update(later, data(num_old), h.views[num_old], num_updates=3, key=key(1))
    return np.stack(now + [predictions(learner, later, task) for task in range(num_old + 1)])


def state_grows_by_rows(history: History) -> None:
    """Room for more tasks is more rows of arrays, and no other array is larger.

    The optimiser's moments are no part of that: they start anew with every task.
    """
    more = NUM_TASKS + 1
    few, many = (
        checkpoint.flatten(history.learner.init(SPEC, count, key=key(0)))
        for count in (NUM_TASKS, more)
    )
    for name in few:
        if OPTIMIZER not in name and few[name].nbytes != many[name].nbytes:
            rows = (len(few[name]), len(many[name]))
            require(
                rows == (NUM_TASKS, more),
                f"'{name}' grows with the number of tasks but has no row for each of them.",
            )


def checkpoint_continues_bit_for_bit(history: History) -> None:
    """A state that was saved and restored goes on exactly as the one that was not."""
    h = history
    template = h.learner.init(SPEC, NUM_TASKS, key=key(1))
    restored = checkpoint.unflatten(template, checkpoint.flatten(h.finished[1]))
    _, state = learn_task(h.learner, restored, 2, h.views[2])
    straight = checkpoint.flatten(h.finished[2])
    for name, array in checkpoint.flatten(state).items():
        same = np.array_equal(array, straight[name])
        require(same, f"'{name}' differs once a task was learnt from a restored checkpoint.")


PROMISES: tuple[Promise, ...] = (
    learns_the_task_under_way,
    tasks_do_not_depend_on_what_was_asked_before,
    nothing_compiles_after_the_second_task,
    learning_leaves_its_arguments_alone,
    declared_bytes_are_those_that_matter,
    state_grows_by_rows,
    checkpoint_continues_bit_for_bit,
)
