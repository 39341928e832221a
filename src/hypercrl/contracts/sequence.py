"""A sequence of conflicting linear systems, and what a learner makes of it, task by task."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.data.memory import TaskMemory
from hypercrl.encoding import Encoding
from hypercrl.types import Learner, Memory, Spec, Transitions

NUM_TASKS = 7  # room in the arrays; a number that no other size in the sequence has
NUM_LEARNT = 5
COUNT = 1_000  # transitions a task
NUM_UPDATES = 400
COMPILATION = "/jax/core/compile/backend_compile_duration"


def make_spec(state_dim: int = 3, action_dim: int = 2, episode_length: int = 10) -> Spec:
    return Spec(
        state_dim=state_dim,
        action_dim=action_dim,
        action_low=(-1.0,) * action_dim,
        action_high=(1.0,) * action_dim,
        episode_length=episode_length,
        encoding=Encoding.differences(state_dim),
    )


SPEC = make_spec()


def linear_system(spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices (A, B) of s' = s + A s + B a."""
    rng = np.random.default_rng(seed)
    a = 0.2 * rng.normal(size=(spec.state_dim, spec.state_dim))
    b = 0.5 * rng.normal(size=(spec.action_dim, spec.state_dim))
    return a, b


def linear_data(spec: Spec, seed: int, count: int = 400, capacity: int = 500) -> Transitions:
    """Transitions of a linear system at random states and actions."""
    a, b = linear_system(spec, seed)
    rng = np.random.default_rng(seed + 1000)
    states = np.zeros((capacity, spec.state_dim), np.float32)
    actions = np.zeros((capacity, spec.action_dim), np.float32)
    states[:count] = rng.normal(size=(count, spec.state_dim))
    actions[:count] = rng.uniform(-1, 1, size=(count, spec.action_dim))
    next_states = np.zeros_like(states)
    next_states[:count] = states[:count] + states[:count] @ a + actions[:count] @ b
    return Transitions(
        jnp.array(states), jnp.array(actions), jnp.array(next_states), jnp.array(count, jnp.int32)
    )


def key(*counters: int):
    result = jax.random.key(0)
    for counter in counters:
        result = jax.random.fold_in(result, counter)
    return result


@functools.cache
def data(task: int, count: int = COUNT) -> Transitions:
    """A task's buffer when it holds `count` transitions."""
    everything = linear_data(SPEC, seed=task, count=COUNT, capacity=COUNT)
    return everything._replace(count=jnp.array(count, jnp.int32))


@functools.cache
def probe() -> tuple[jax.Array, jax.Array]:
    """States and actions at which models are compared."""
    rng = np.random.default_rng(0)
    states = jnp.asarray(rng.normal(size=(64, SPEC.state_dim)), jnp.float32)
    return states, jnp.asarray(rng.uniform(-1, 1, (64, SPEC.action_dim)), jnp.float32)


@jax.jit
def _call(model, states, actions):
    return jax.vmap(model)(states, actions)


def predictions(learner: Learner, state: Any, task: int) -> np.ndarray:
    return np.asarray(_call(learner.predict(state, task), *probe()))


def error(learner: Learner, state: Any, task: int) -> float:
    """The error of the predicted change, relative to the change."""
    batch = data(task)
    predicted = _call(learner.predict(state, task), batch.states, batch.actions)
    wrong = jnp.sqrt(jnp.mean((predicted - batch.next_states) ** 2))
    return float(wrong / jnp.sqrt(jnp.mean((batch.next_states - batch.states) ** 2)))


def learn_task(learner: Learner, state: Any, task: int, memory: Memory | None):
    """One task as the runner drives it: two sessions, the first with a part of the data."""
    state = learner.start_task(state, task, key=key(task, 0))
    started = state
    for session, count in enumerate((COUNT // 2, COUNT)):
        state, _ = learner.update(
            state,
            data(task, count),
            memory,
            num_updates=NUM_UPDATES // 2 + session,
            key=key(task, 1, session),
        )
    return started, learner.end_task(state, data(task), key=key(task, 2))


@dataclass(frozen=True)
class History:
    """States before and after each task, and how many functions were compiled in it."""

    learner: Learner
    started: list[Any]
    finished: list[Any]
    views: list[Memory | None]  # what the learner was given to remember in each task
    memory: TaskMemory
    compiled: list[int]


def learn_sequence(learner: Learner) -> History:
    """The way of a learner through the sequence."""
    memory = TaskMemory(SPEC, NUM_TASKS, COUNT, learner.memory_share)
    result = History(learner, [], [], [], memory, [])
    state = learner.init(SPEC, NUM_TASKS, key=key(9))
    compiled = [0]

    def count(event: str, duration_secs: float, **_: Any):
        compiled[0] += event == COMPILATION

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        for task in range(NUM_LEARNT):
            compiled[0] = 0
            result.views.append(memory.view())
            started, state = learn_task(learner, state, task, memory.view())
            predictions(learner, state, task)
            _remember(memory, task)
            result.started.append(started)
            result.finished.append(state)
            result.compiled.append(compiled[0])
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    return result


def _remember(memory: TaskMemory, task: int) -> None:
    """Hand a finished task's transitions over, as the runner does."""
    rows = {n: np.asarray(getattr(data(task), n)) for n in ("states", "actions", "next_states")}
    memory.keep(task, rows, np.random.default_rng(task))
