"""A sequence of conflicting linear systems, and what a learner makes of it, task by task."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.data.memory import TaskMemory
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.low_rank_hypernet import LowRankHypernet
from hypercrl.dynamics.model import Network
from hypercrl.learning.prediction_regulariser import PredictionRegulariser
from hypercrl.learning.training import Training
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.registry import learners
from hypercrl.types import Learner, Memory, Transitions
from problems import linear_data, make_spec

SPEC = make_spec()
NUM_TASKS = 7  # room in the arrays; a number that no other size in these tests has
NUM_LEARNT = 5
COUNT = 1_000  # transitions a task
SETTINGS = {
    "network": Network(hidden=(24, 24), scale_targets=True),
    "training": Training(batch_size=32),
    "hypernet": FullHypernet(hidden=(12,)),
    "learning_rate": 3e-3,
    "regulariser": WeightRegulariser(1.0),
    "lookahead": False,
}
NUM_UPDATES = 400

# What a method may be asked for besides its settings above.
GAUSSIAN = {"network": Network(hidden=(24, 24), head="gaussian", scale_targets=True)}
CHUNKED = {"hypernet": ChunkedHypernet(hidden=(12,), chunk_size=100, chunk_embedding_dim=5)}
LOW_RANK = {"hypernet": LowRankHypernet(rank=6)}
LOOKAHEAD = {"lookahead": True}
PREDICTIONS = {"regulariser": PredictionRegulariser()}
ONE_OLD_TASK = {"regulariser": WeightRegulariser(1.0, regularised_tasks=1)}
VARIANTS = {
    "hypercrl+lookahead": ("hypercrl", LOOKAHEAD),
    "hypercrl+chunked": ("hypercrl", CHUNKED),
    "hypercrl+one_old_task": ("hypercrl", ONE_OLD_TASK),
    "hypercrl+low_rank": ("hypercrl", LOW_RANK),
    "hypercrl+predictions+gaussian": ("hypercrl", PREDICTIONS | GAUSSIAN),
    "hypercrl+low_rank+predictions": ("hypercrl", LOW_RANK | PREDICTIONS),
    "hypercrl+chunked+predictions+lookahead": ("hypercrl", CHUNKED | PREDICTIONS | LOOKAHEAD),
    "hypercrl_mt+low_rank": ("hypercrl_mt", LOW_RANK),
    "hypercrl+chunked+lookahead+gaussian": ("hypercrl", CHUNKED | LOOKAHEAD | GAUSSIAN),
    "hypercrl_mt+chunked+gaussian": ("hypercrl_mt", CHUNKED | GAUSSIAN),
    # Likelihoods are sharper than squared errors: springs must be weaker, coresets larger.
    "ewc+gaussian": ("ewc", GAUSSIAN | {"strength": 1.0}),
    "coreset+gaussian": ("coreset", GAUSSIAN | {"memory_share": 0.3}),
    **{
        f"{name}+gaussian": (name, GAUSSIAN)
        for name in ("finetune", "multitask", "pnn", "si", "single")
    },
}


def make(name: str, **changes: Any) -> Learner:
    """A registered method, or a variant of one, with the settings of this sequence."""
    method, asked = VARIANTS.get(name, (name, {}))
    factory = learners.get(method)
    own = {field.name for field in dataclasses.fields(factory)}
    return factory(**{n: v for n, v in (SETTINGS | asked | changes).items() if n in own})


COMPILATION = "/jax/core/compile/backend_compile_duration"


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


@functools.cache
def history(name: str) -> History:
    """The way of a registered method, or of a variant, through the sequence."""
    learner = make(name)
    memory = TaskMemory(SPEC, NUM_TASKS, COUNT, learner.memory_share)
    result = History(learner, [], [], [], memory, [])
    state = learner.init(SPEC, NUM_TASKS, key=key(9))
    compiled = [0]

    def count(event: str, duration: float, **_):
        compiled[0] += event == COMPILATION

    jax.monitoring.register_event_duration_secs_listener(count)
    for task in range(NUM_LEARNT):
        compiled[0] = 0
        result.views.append(memory.view())
        started, state = learn_task(learner, state, task, memory.view())
        predictions(learner, state, task)
        remember(memory, task)
        result.started.append(started)
        result.finished.append(state)
        result.compiled.append(compiled[0])
    jax.monitoring.unregister_event_duration_listener(count)
    return result


TINY = Network(hidden=(6, 5))
SIXTEEN = Training(batch_size=16)


@functools.cache
def learn_briefly(learner: Learner, num_tasks: int = 3) -> list[Any]:
    """States of a learner without memory after each of a few tasks."""
    state, states = learner.init(SPEC, num_tasks, key=key(0)), []
    for task in range(num_tasks):
        few = linear_data(SPEC, task, count=80, capacity=80)
        state = learner.start_task(state, task, key=key(task))
        state, _ = learner.update(state, few, None, num_updates=30, key=key(task))
        state = learner.end_task(state, few, key=key(task))
        states.append(state)
    return states


def to_arrays(state: Any) -> dict[str, np.ndarray]:
    """A state as a flat dictionary of plain arrays, which is what a checkpoint holds."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {jax.tree_util.keystr(place): np.asarray(leaf) for place, leaf in leaves}


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state back from its arrays and a fresh state of the same shape."""
    return jax.tree_util.tree_map_with_path(
        lambda place, _: jnp.asarray(arrays[jax.tree_util.keystr(place)]), template
    )


def remember(memory: TaskMemory, task: int) -> None:
    """Hand a finished task's transitions over, as the runner does."""
    rows = {n: np.asarray(getattr(data(task), n)) for n in ("states", "actions", "next_states")}
    memory.keep(task, rows, np.random.default_rng(task))
