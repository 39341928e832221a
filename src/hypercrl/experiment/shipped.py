"""Small trained controllers that come with the package, with the record of where they come from.

    trained/<suite>/config.json               the run's configuration, its code included
                    metrics.jsonl             the run's records
                    controller.safetensors    of its checkpoint, what predictions depend on

What a method keeps for learning alone (moments, anchors, data) is left out; when such a
controller is loaded, a fresh state fills its place.
"""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.learnt import learner_state
from hypercrl.experiment.records import METRICS
from hypercrl.experiment.run_folder import CHECKPOINT, CONFIG, read_config, read_run
from hypercrl.types import Spec

TRAINED = Path(__file__).parents[1] / "trained"
CONTROLLER = "controller.safetensors"
LEARNER = "learner"  # where a checkpoint has the learner's arrays
ROOM = "memory/counts"  # and by what it tells how many tasks they have room for


def names() -> list[str]:
    """The suites that a trained controller comes with."""
    return sorted(path.parent.name for path in TRAINED.glob(f"*/{CONTROLLER}"))


def find(suite: str) -> Path:
    """Where the trained controller of a suite is."""
    if suite not in names():
        known = ", ".join(names()) or "none"
        raise UserError(f"No trained controller comes with '{suite}'; there is one of: {known}.")
    return TRAINED / suite


def read(path: Path, config: RunConfig, spec: Spec) -> tuple[checkpoint.Arrays, dict[str, Any]]:
    """The arrays of a shipped controller, as complete as a checkpoint's, and its position."""
    arrays, info = checkpoint.load(path)
    room = arrays[ROOM].size
    fresh = config.learner.init(spec, room, key=streams.key(config.seed, "init"))
    filled = {f"{LEARNER}/{name}": x for name, x in checkpoint.flatten(fresh).items()}
    return {**filled, **arrays}, info


def ship(run: Path, out: Path | None = None) -> Path:
    """Make a controller to be shipped of a finished run; returns its folder."""
    if not read_run(run).complete:
        raise UserError(f"The run in {run} is not finished.")
    stored = read_config(run)
    if stored.plugins:
        raise UserError(f"The run in {run} needs the plugin '{stored.plugins[0]}'.")
    config = RunConfig.from_stored(stored)
    arrays, info = checkpoint.load(run / CHECKPOINT)
    state = learner_state(config, config.build_suite().spec, arrays)
    learnt = checkpoint.flatten(state)
    kept = {f"{LEARNER}/{name}": learnt[name] for name in _needed(config, state)}
    kept |= {
        name: array
        for name, array in arrays.items()
        if name == ROOM or name.startswith("values/finished")
    }
    folder = out or TRAINED / config.suite
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONTROLLER).unlink(missing_ok=True)  # a checkpoint would keep the one before it
    checkpoint.save(folder / CONTROLLER, kept, {"position": info["position"]})
    shutil.copyfile(run / f"{METRICS}.jsonl", folder / f"{METRICS}.jsonl")
    shutil.copyfile(run / CONFIG, folder / CONFIG)
    return folder


def _needed(config: RunConfig, state: Any) -> set[str]:
    """Arrays of a learner's state that a prediction depends on: those whose change changes one."""
    places, structure = jax.tree_util.tree_flatten_with_path(state)
    leaves = [leaf for _, leaf in places]
    truth = _predictions(config, state)
    found = set()
    for i, name in enumerate(checkpoint.flatten(state)):
        changed = [*leaves[:i], jnp.asarray(leaves[i]) + 1, *leaves[i + 1 :]]
        other = _predictions(config, jax.tree.unflatten(structure, changed))
        if any(not np.array_equal(x, y) for x, y in zip(truth, other, strict=True)):
            found.add(name)
    return found


def _predictions(config: RunConfig, state: Any) -> list[np.ndarray]:
    """Everything that the models of all tasks are made of."""
    models = [config.learner.predict(state, task) for task in range(config.num_tasks)]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(models)]
