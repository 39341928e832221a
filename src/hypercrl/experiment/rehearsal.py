"""Whether a run can be built, found out before anything old makes way for it.

Memory is counted before it is asked for: a system that promises more than it has would otherwise
kill the process in the middle of a run.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any

import jax

from hypercrl.data.buffer import Buffer
from hypercrl.data.memory import TaskMemory
from hypercrl.errors import UserError, boundary
from hypercrl.experiment import streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import RunConfig
from hypercrl.types import Suite

NUMBER_BYTES = 4  # of a float32
COPIES = 2  # of every array, at least: the host's and the device's, or the old and the new
WORTH_COUNTING = 0.05  # of the memory: below it, a method's state is not counted exactly


def require_memory(config: RunConfig, suite: Suite) -> None:
    """Refuse sizes that no memory of this machine could hold."""
    state_and_action = NUMBER_BYTES * (suite.spec.state_dim + suite.spec.action_dim)
    kept = 1 + config.num_tasks * config.learner.memory_share
    rows = capacity(config, suite) * kept
    _require(COPIES * 2 * state_and_action * rows, "its transitions")
    imagined = config.planner.evaluations_per_action * state_and_action
    _require(imagined, "the futures that its planner imagines")
    sizes = list(_sizes(config.learner))
    for name, value in sizes:
        _require(value * state_and_action, f"the numbers that its {name} asks for")
    widest = sorted((value for _, value in sizes), reverse=True)[:3]
    if NUMBER_BYTES * math.prod(widest) > WORTH_COUNTING * total_memory():
        _require(COPIES * _state_bytes(config, suite), "its method's weights")


def rehearse(config: RunConfig) -> None:
    """Build everything of a run, and make one step in each of its environments."""
    suite = config.build_suite()
    with boundary("The run"):
        rows, share = capacity(config, suite), config.learner.memory_share
        Buffer(suite.spec, rows)
        TaskMemory(suite.spec, config.num_tasks, rows, share)
        config.learner.init(suite.spec, config.num_tasks, key=streams.key(config.seed, "init"))
        config.planner.init(suite.spec)
    for number, task in enumerate(suite.tasks):
        actor = Actor(
            task, suite.spec, config.planner, seed=config.seed, purpose=("rehearsal", number)
        )
        with contextlib.closing(actor):
            actor.explore()


def capacity(config: RunConfig, suite: Suite) -> int:
    """Rows of a task's buffer at most."""
    schedule = config.schedule
    return schedule.random_episodes * suite.spec.episode_length + schedule.steps_per_task


def total_memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _require(needed: float, what: str) -> None:
    if needed > total_memory():
        raise UserError(
            f"The run cannot be held in memory: {what} take {needed / 1e9:,.0f} GB and this "
            f"machine has {total_memory() / 1e9:,.0f}; choose smaller sizes."
        )


def _sizes(part: Any) -> Iterator[tuple[str, int]]:
    """Whole numbers among a method's settings: widths, batches, chunks."""
    for field in dataclasses.fields(part):
        value: Any = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            yield from _sizes(value)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int):
                yield field.name, number


def _state_bytes(config: RunConfig, suite: Suite) -> int:
    """Bytes of a learner's state, counted without making it; 0 where it cannot be traced."""
    try:
        state = jax.eval_shape(
            lambda key: config.learner.init(suite.spec, config.num_tasks, key=key),
            streams.key(config.seed, "init"),
        )
    except Exception:
        return 0  # whatever is wrong is told when it is made
    return sum(leaf.size * NUMBER_BYTES for leaf in jax.tree.leaves(state))
