"""Run folders in the record format, with made-up but plausible contents.

Each method is a few numbers: how much of an old task it keeps per later task, how much of the
old transitions it stores. Returns rise from what random actions earn to what a learnt task pays
and decay from there, so that metrics, figures and page have something worth showing.
"""

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import imageio.v2 as imageio
import numpy as np

from hypercrl.experiment import records
from hypercrl.experiment.records import (
    Cost,
    Embeddings,
    End,
    Episode,
    Evaluation,
    Phase,
    RandomPolicy,
    Record,
    Session,
    SessionTime,
    TaskTime,
)
from hypercrl.experiment.run_folder import CONFIG, Code, StoredConfig, video_name

PUSHER = (5.0, 310.0)  # returns of random actions, and of a learnt task
PENDULUM = (-1_200.0, -150.0)

ZERO_SHOT = 0.3  # of a learnt task's gain, before any training on it
NUM_RANDOM = 10  # episodes of random actions
UPDATE_EVERY = 200  # control steps between sessions

CODE = Code("0.2.0", "c0de" * 16)
"""What made the runs, unless a recipe says otherwise."""


@dataclass(frozen=True)
class Profile:
    """How a made-up method behaves."""

    keep: float  # share of the gain on an old task that survives one more task
    memory_fraction: float = 0.0
    session_growth: float = 0.0  # more seconds per session with every task, as a share
    has_embeddings: bool = False


PROFILES = {
    "hypercrl": Profile(keep=1.0, has_embeddings=True, session_growth=0.05),
    "multitask": Profile(keep=1.01, memory_fraction=1.0, session_growth=0.8),
    "si": Profile(keep=0.9),
    "ewc": Profile(keep=0.35),
    "coreset": Profile(keep=0.75, memory_fraction=0.01, session_growth=0.3),
    "finetune": Profile(keep=0.1),
    "single": Profile(keep=1.0),
}


@dataclass(frozen=True)
class Recipe:
    """One synthetic run."""

    method: str
    seed: int = 0
    suite: str = "pusher"
    preset: str = "laptop"
    name: str = ""
    num_tasks: int = 5
    steps_per_task: int = 4_000
    eval_every: int = 400
    episode_length: int = 100
    eval_episodes: int = 10
    stop_after: int | None = None  # tasks finished before the run broke off
    videos: bool = False
    successes: bool = False
    planner: str = "icem"
    planning: dict = field(default_factory=lambda: {"num_samples": 128, "horizon": 20})
    learner: dict = field(default_factory=lambda: {"learning_rate": 1e-3})
    updates: int = 500
    levels: tuple[float, float] = PUSHER
    knows_random: bool = True
    skill: float = 1.0  # of the full gain, once a task is learnt
    keep: float | None = None  # instead of the profile's
    fails: tuple[int, ...] = ()  # tasks on which hardly anything is learnt
    code: tuple[Code, ...] = (CODE,)

    @property
    def profile(self) -> Profile:
        usual = PROFILES.get(self.method, Profile(keep=0.6))
        return usual if self.keep is None else replace(usual, keep=self.keep)


def write_run(root: Path, recipe: Recipe) -> Path:
    """Write one run folder below `root` and return it."""
    rng = np.random.default_rng([recipe.seed, *map(ord, recipe.method + recipe.suite)])
    finished = recipe.num_tasks if recipe.stop_after is None else recipe.stop_after
    found = [] if recipe.stop_after == 0 else _random_policies(recipe, rng)
    for task in range(finished):
        found += _task_records(recipe, task, rng)
        found += _task_times(recipe, task, rng)
    if finished == recipe.num_tasks:
        found.append(End())
    folder = write_records(root, recipe, found)
    if recipe.videos:
        _write_videos(folder, finished)
    return folder


def write_records(root: Path, recipe: Recipe, found: Sequence[Record]) -> Path:
    """A run folder that holds exactly these records."""
    folder = root / "-".join(
        [
            recipe.suite,
            recipe.name or recipe.method,
            recipe.preset,
            recipe.planner,
            f"{recipe.seed}",
        ]
    )
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(_config(recipe).to_json(), encoding="utf-8")
    for file in records.FILES:
        lines = [records.to_line(record) + "\n" for record in found if record.file == file]
        (folder / f"{file}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def write_runs(root: Path, methods, seeds, suites=("pusher",), **options) -> list[Path]:
    """A grid of runs; videos only for the first seed, as a real sweep records them."""
    with_videos = options.pop("videos", False)
    return [
        write_run(
            root,
            Recipe(method, seed, suite, videos=with_videos and seed == min(seeds), **options),
        )
        for suite in suites
        for method in methods
        for seed in seeds
    ]


def write_matrix(root: Path, method: str, returns, seed: int = 0, random=None, **options) -> Path:
    """A run whose final evaluations are exactly a given matrix; NaN cells are left out.

    `random` is the return of random actions on each task, if they were measured.
    """
    returns = np.asarray(returns, float)
    found: list[Record] = [
        RandomPolicy(task, (value - 1, value + 1)) for task, value in enumerate(random or ())
    ]
    found += [
        Evaluation(i, 4_000, 4_000 * (j + 1), j, "final", (returns[i, j],))
        for j in range(len(returns))
        for i in range(j + 1)
        if np.isfinite(returns[i, j])
    ]
    return write_records(
        root, Recipe(method, seed, num_tasks=len(returns), **options), [*found, End()]
    )


def _config(recipe: Recipe) -> StoredConfig:
    names = ["500/500 kg/m³", "100/500 kg/m³", "500/100 kg/m³", "500/250 kg/m³", "250/500 kg/m³"]
    return StoredConfig(
        suite=recipe.suite,
        method=recipe.method,
        preset=recipe.preset,
        seed=recipe.seed,
        num_tasks=recipe.num_tasks,
        tasks=tuple(names[i % len(names)] for i in range(recipe.num_tasks)),
        planner=recipe.planner,
        schedule={
            "steps_per_task": recipe.steps_per_task,
            "update_every": UPDATE_EVERY,
            "updates": recipe.updates,
            "eval_every": recipe.eval_every,
        },
        learner=recipe.learner,
        planning=recipe.planning,
        state_dim=10,
        action_dim=2,
        name=recipe.name,
        code=recipe.code,
    )


def _random_policies(recipe: Recipe, rng) -> list[Record]:
    if not recipe.knows_random:
        return []
    draws = rng.normal(recipe.levels[0], 3.0, size=(recipe.num_tasks, NUM_RANDOM))
    return [RandomPolicy(task, tuple(map(float, row))) for task, row in enumerate(draws)]


def _task_records(recipe: Recipe, task: int, rng) -> list[Record]:
    found: list[Record] = []
    before = task * recipe.steps_per_task
    if task:
        found.append(_test(recipe, task, task - 1, "zero_shot", 0, before, ZERO_SHOT, rng))
    for step in range(recipe.episode_length, recipe.steps_per_task + 1, recipe.episode_length):
        total_step, number = before + step, step // recipe.episode_length
        gained = _draw(recipe, task, _progress(recipe, task, task, step), rng)
        found.append(Episode(task, step, total_step, number, gained, random=False))
        if step % UPDATE_EVERY == 0:
            validation = 0.12 + float(rng.uniform(0, 0.01))
            found.append(Session(task, step, total_step, 0.1 + 1 / step, 0.01 * task, validation))
        if recipe.eval_every and step % recipe.eval_every == 0 and step < recipe.steps_per_task:
            for old in range(task + 1):
                height = _progress(recipe, old, task, step)
                found.append(_test(recipe, old, task, "training", step, total_step, height, rng))
    end = recipe.steps_per_task
    for old in range(task + 1):
        height = _progress(recipe, old, task, end)
        found.append(_test(recipe, old, task, "final", end, before + end, height, rng))
    return found + _task_end(recipe, task)


def _task_end(recipe: Recipe, task: int) -> list[Record]:
    small = recipe.profile.has_embeddings
    stored = int(recipe.steps_per_task * recipe.profile.memory_fraction) * 88 * (task + 1)
    cost = Cost(
        task,
        recipe.steps_per_task,
        recipe.steps_per_task * (task + 1),
        parameters=43_500 if small else 44_810 + 2_010 * task,
        bytes_per_task=160 if small else 8_040,
        memory_bytes=stored,
        evaluations_per_action=7_680,
        peak_bytes=900_000 + stored + (179_000 * task if small else 0) if recipe.code else None,
    )
    if not small:
        return [cost]
    vectors = np.random.default_rng(recipe.seed).normal(size=(recipe.num_tasks, 10))
    return [cost, Embeddings(task, tuple(tuple(v) for v in vectors[: task + 1].tolist()))]


def _progress(recipe: Recipe, old: int, task: int, step: int) -> float:
    """From 0 (random) to 1 (learnt): a quick rise in its own task, then a decay."""
    share = step / recipe.steps_per_task
    if old == task:
        start = ZERO_SHOT if task else 0.0
        return start + (1 - start) / (1 + np.exp(-14 * (share - 0.3)))
    return recipe.profile.keep ** (task - old - 1 + share)


def _draw(recipe: Recipe, task: int, height: float, rng) -> float:
    idle, learnt = recipe.levels
    skill = 0.02 if task in recipe.fails else recipe.skill
    gain = height * skill * (1 + 0.04 * rng.normal())
    return round(float(idle + (learnt - idle) * gain), 3)


def _test(recipe: Recipe, task: int, after: int, phase: Phase, step, total_step, height, rng):
    level = height * rng.normal(1.0, 0.04)
    returns = tuple(_draw(recipe, task, level, rng) for _ in range(recipe.eval_episodes))
    error = 1.0 if task in recipe.fails else 1 - min(height, 1.0)
    return Evaluation(
        task,
        step,
        total_step,
        after,
        phase,
        returns,
        successes=tuple(r > sum(recipe.levels) / 2 for r in returns) if recipe.successes else None,
        measures={"final error, m": tuple(0.01 + 0.1 * error for _ in returns)},
        one_step=round(0.08 + 0.5 * error, 4),
        h_step=round(0.2 + 0.9 * error, 4),
    )


def _task_times(recipe: Recipe, task: int, rng) -> list[Record]:
    each = 0.5 * (1 + recipe.profile.session_growth * task)
    steps = range(UPDATE_EVERY, recipe.steps_per_task + 1, UPDATE_EVERY)
    sessions = [SessionTime(task, s, float(each * rng.uniform(0.95, 1.05))) for s in steps]
    training = each * len(steps)
    return [*sessions, TaskTime(task, training + 60, 30.0, 20.0, training, 10.0)]


def _write_videos(folder: Path, finished: int) -> None:
    for after in range(finished):
        for task in range(after + 1):
            file = folder / video_name(task, after)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(_video())


@functools.cache
def _video() -> bytes:
    """A square that slides over a table for two seconds: H.264, what every browser plays."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "slide.mp4"
        writer = imageio.get_writer(file, fps=10, codec="libx264", pixelformat="yuv420p")
        for step in range(20):
            frame = np.full((240, 320, 3), (226, 222, 214), np.uint8)
            frame[:, 240:244] = (90, 140, 90)
            left = 20 + 10 * step
            frame[100:140, left : left + 40] = (60, 90, 160)
            writer.append_data(frame)
        writer.close()
        return file.read_bytes()
