"""Sequential learning on recorded data, without planning: where settings are chosen.

    python benchmarks/sequence.py door --tasks 3 --data runs/recorded/door-s340 \\
        single hypercrl hypercrl:low_rank:predictions "hypercrl:low_rank:predictions:strength=1"

A candidate is a method, optionally followed by a hypernetwork, a regulariser, and changes of
their fields (`network.hidden=[256,256]` where two parts have one of that name). All candidates
learn the same transitions, task after task: all that a `single` run on the suite collects, at
random and while it plans, recorded in the folder `--data` by the first call and read by later
ones; without a folder, brown-noise exploration that is drawn anew.
Printed are the one-step error on what was held out (relative to how much the state changes; 1 is
as bad as predicting no change) when a task has just been learnt and after all of them, and, as
tasks accumulate, its mean over all tasks seen; the drift, which is how far the predictions for a
task have moved since it was learnt, where it matters; the size against the target network's; and
the loss of a task's first updates, which shows what a switch costs. A candidate takes a minute
where a run takes a quarter of an hour. `--out` appends what was found to a file of JSON lines, and
what is there already is not learnt again; `--file` names a file with a candidate a line.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.data.buffer import Buffer, is_training
from hypercrl.data.memory import TaskMemory
from hypercrl.dynamics.model import prepare
from hypercrl.experiment import streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import build_suite, change, resolve
from hypercrl.experiment.display import Silent
from hypercrl.experiment.runner import Runner
from hypercrl.experiment.store import Store
from hypercrl.experiment.testing import validation_error
from hypercrl.presets import Preset
from hypercrl.registry import hypernets, regularisers
from hypercrl.types import Learner, Spec, Suite

BROWN = 2.0  # power-law exponent of the random actions over time
FIRST_UPDATES = 20
EVENTFUL = 0.1  # share of the transitions that drift is measured on


class RecordingRunner(Runner):
    """A run that leaves every task's buffer behind."""

    folder: Path

    def consolidate(self) -> None:
        np.savez_compressed(self.folder / f"task{self.at.task + 1}.npz", **self.buffer.get_state())
        super().consolidate()


def record_run(options: argparse.Namespace) -> None:
    """All that `single` sees of each task, in a file a task."""
    folder = options.data
    folder.mkdir(parents=True, exist_ok=True)
    config = resolve(options.suite, "single", num_tasks=options.tasks, seed=options.data_seed)
    # What is not learnt from need not be tested.
    changes = {"schedule.eval_episodes": 1, "schedule.retest": False}
    if options.steps is not None:
        changes["schedule.steps_per_task"] = options.steps
    config = change(config, changes)
    with (
        tempfile.TemporaryDirectory() as scratch,
        contextlib.closing(Store(Path(scratch) / "run", config)) as store,
    ):
        runner = RecordingRunner(config, store, Silent())
        runner.folder = folder
        runner.run()


def read(suite: Suite, folder: Path) -> list[Buffer]:
    """The transitions that a recorded run has left of each of the suite's tasks."""
    buffers = []
    for task in range(len(suite.tasks)):
        with np.load(folder / f"task{task + 1}.npz") as arrays:
            rows = dict(arrays)
        buffers.append(Buffer(suite.spec, len(rows["states"])))
        buffers[-1].set_state(rows)
    return buffers


def explore(suite: Suite, task: int, count: int, seed: int) -> Buffer:
    """Transitions of one task under brown-noise exploration."""
    buffer = Buffer(suite.spec, count)
    actor = Actor(
        suite.tasks[task], suite.spec, seed=seed, purpose=("record", task), exploration_beta=BROWN
    )
    with contextlib.closing(actor):
        while buffer.count < count:
            step = actor.explore()
            buffer.add(step.state, step.action, step.next_state)
    return buffer


def make_learner(preset: Preset, candidate: str) -> Learner:
    """`method[:hypernet][:regulariser][:field=value…]`, fields of whichever part has them."""
    method, *parts = candidate.split(":")
    learner: Any = preset.learner(method)
    for part in parts:
        if part in hypernets.names():
            learner = dataclasses.replace(learner, hypernet=hypernets.get(part)())
        elif part in regularisers.names():
            learner = dataclasses.replace(learner, regulariser=regularisers.get(part)())
        else:
            learner = set_field(learner, *part.split("=", 1))
    return learner


def set_field(learner: Any, name: str, text: str) -> Any:
    """Change the field of the first part that has it, or of the part that `part.field` names."""
    named, _, name = name.rpartition(".")
    for owner in [named] if named else [None, "hypernet", "regulariser", "training", "network"]:
        part = learner if owner is None else getattr(learner, owner, None)
        if part is not None and name in {f.name for f in dataclasses.fields(part)}:
            value: Any = text
            with contextlib.suppress(ValueError):
                value = json.loads(text)
            value = tuple(value) if isinstance(value, list) else value
            changed = dataclasses.replace(part, **{name: value})
            return changed if owner is None else dataclasses.replace(learner, **{owner: changed})
    raise SystemExit(f"{type(learner).__name__} has no field '{name}'.")


def learn(suite: Suite, learner: Learner, data: list[Buffer], options: argparse.Namespace):
    """Errors [T, T] of task i after task j, drifts [T] at the end, the size, and for each task's
    start the loss of its first update and of its first few."""
    num_tasks, spec = len(data), suite.spec
    key = lambda *counters: streams.key(options.seed, "sequence", *counters)  # noqa: E731
    state = learner.init(spec, num_tasks, key=key(0))
    memory = TaskMemory(spec, num_tasks, data[0].capacity, learner.memory_share)
    errors, starts, said = np.full((num_tasks, num_tasks), np.nan), [], []
    for task, buffer in enumerate(data):
        transitions = buffer.transitions()
        state = learner.start_task(state, task, key=key(1, task))
        sessions = [FIRST_UPDATES, *[options.updates // options.sessions] * options.sessions]
        for number, updates in enumerate(sessions):
            state, info = learner.update(
                state, transitions, memory.view(), num_updates=updates, key=key(2, task, number)
            )
            if number == 0:
                starts.append([float(info[name]) for name in ("first_loss", "loss")])
        state = learner.end_task(state, transitions, key=key(3, task))
        memory.keep(task, buffer.get_state(), streams.generator(options.seed, "keep", task))
        for old in range(task + 1):
            model = learner.predict(state, old)
            errors[old, task] = float(validation_error(model, spec, data[old].transitions()))
        said.append(held_out(learner.predict(state, task), spec, buffer)[0])
    drifts = [
        drift(before, *held_out(learner.predict(state, task), spec, data[task]), options.watch)
        for task, before in enumerate(said)
    ]
    return errors, drifts, learner.num_parameters(state), starts


def held_out(model: Any, spec: Spec, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
    """What a model says of the transitions that were held out, and what it should say."""
    data = buffer.transitions()
    inputs, targets = prepare(spec, model.normalizer, *data[:3])
    rows = np.arange(buffer.count)
    rows = rows[~np.asarray(is_training(jnp.asarray(rows)))]
    return np.asarray(jax.vmap(model.predictor)(inputs[rows])), np.asarray(targets[rows])


def drift(
    before: np.ndarray, now: np.ndarray, targets: np.ndarray, watch: list[int] | None
) -> float:
    """How far predictions have moved where most happens, in variances of what they predict.

    It is the worst of the outputs that are watched: a lever that turns seldom is lost in any mean,
    and all that counts for whoever wants the door open.
    """
    watch = watch or list(range(targets.shape[1]))
    change = (targets[:, watch] ** 2).max(1)
    eventful = change >= np.quantile(change, 1 - EVENTFUL)
    return float(((now - before)[eventful][:, watch] ** 2).mean(0).max())


def find_data(suite: Suite, options: argparse.Namespace) -> list[Buffer]:
    if options.data is None:
        return [explore(suite, t, options.transitions, options.seed) for t in range(options.tasks)]
    if not (options.data / f"task{options.tasks}.npz").exists():
        record_run(options)
    return read(suite, options.data)


def listed(path: Path | None) -> list[str]:
    """The candidates that a file names."""
    lines = [] if path is None else path.read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def identity(candidate: str, options: argparse.Namespace) -> dict[str, Any]:
    """What decides the numbers of a row."""
    names = ("suite", "preset", "tasks", "data_seed", "updates", "sessions", "seed", "watch")
    found = {"candidate": candidate} | {name: getattr(options, name) for name in names}
    return found if options.steps is None else found | {"steps": options.steps}


def is_known(candidate: str, options: argparse.Namespace) -> bool:
    """Whether the file of results has this row."""
    if options.out is None or not options.out.exists():
        return False
    wanted = identity(candidate, options)
    rows = (json.loads(line) for line in options.out.read_text().splitlines())
    return any(wanted.items() <= row.items() for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("suite")
    parser.add_argument("candidates", nargs="*")
    parser.add_argument("--file", type=Path, help="a candidate a line; # begins a comment")
    parser.add_argument("--preset", default=None)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder of a recorded `single` run")
    parser.add_argument("--data-seed", type=int, default=0, help="of the run to be recorded")
    parser.add_argument("--steps", type=int, help="a task of that run, if not the preset's")
    parser.add_argument("--transitions", type=int, default=4_000, help="of each task, explored")
    parser.add_argument("--updates", type=int, default=4_000, help="of each task")
    parser.add_argument("--sessions", type=int, default=4, help="that they are made in")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--watch", type=int, nargs="+", help="outputs whose drift counts, from 0")
    parser.add_argument("--out", type=Path, help="file of JSON lines to append to")
    options = parser.parse_intermixed_args()
    suite = build_suite(options.suite, options.tasks)
    preset = suite.presets[options.preset or next(iter(suite.presets))]
    data = find_data(suite, options)
    for candidate in [*options.candidates, *listed(options.file)]:
        if is_known(candidate, options):
            continue
        start = time.perf_counter()
        learner = make_learner(preset, candidate)
        target = getattr(learner, "network", preset.network).layout(suite.spec).num_weights
        errors, drifts, size, starts = learn(suite, learner, data, options)
        learnt, end = np.diagonal(errors), errors[:, -1]
        print(f"{candidate}  ({size / target:.2f} x, {time.perf_counter() - start:.0f} s)")
        first, early = np.transpose(starts)
        seen = np.array([errors[: after + 1, after].mean() for after in range(len(errors))])
        rows = {"learnt": learnt, "at the end": end, "all seen": seen, "drift": np.array(drifts)}
        rows |= {"first loss": first, "early loss": early}
        for name, row in rows.items():
            cells = "  ".join(f"{value:8.3f}" for value in row)
            print(f"  {name:<11}{cells}   mean {np.mean(row):.3f}", flush=True)
        if options.out is not None:
            found = {name.replace(" ", "_"): row.tolist() for name, row in rows.items()}
            found = identity(candidate, options) | {"size": size / target} | found
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
        jax.clear_caches()


if __name__ == "__main__":
    main()
