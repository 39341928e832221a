"""Every method and its variants on the sequence that the learners' contract is tried on."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.contracts.sequence import SPEC, History, key, learn_sequence, linear_data
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.low_rank_hypernet import LowRankHypernet
from hypercrl.dynamics.model import Network
from hypercrl.learning.prediction_regulariser import PredictionRegulariser
from hypercrl.learning.training import Training
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.registry import learners
from hypercrl.types import Learner

SETTINGS = {
    "network": Network(hidden=(24, 24), scale_targets=True),
    "training": Training(batch_size=32),
    "hypernet": FullHypernet(hidden=(12,)),
    "learning_rate": 3e-3,
    "regulariser": WeightRegulariser(1.0),
    "lookahead": False,
}
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


@functools.cache
def history(name: str) -> History:
    """The way of a registered method, or of a variant, through the sequence."""
    return learn_sequence(make(name))


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
