"""Run folders in the record format, with made-up but plausible contents.

Each method is a pair of numbers: how much of an old task it keeps per later task, and how
much of the old transitions it stores. Returns rise from idling to about 300 and decay from
there, so that metrics, figures and page have something worth showing.
"""

import functools
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import imageio.v2 as imageio
import numpy as np

IDLE, LEARNT = 5.0, 310.0  # returns of the pusher: doing nothing, and having learnt it

ZERO_SHOT = 0.3  # of a learnt task's return, before any training on it


@dataclass(frozen=True)
class Profile:
    """How a made-up method behaves."""

    keep: float  # share of the return on an old task that survives one more task
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
    num_tasks: int = 5
    steps_per_task: int = 4_000
    eval_every: int = 400
    episode_length: int = 100
    eval_episodes: int = 10
    stop_after: int | None = None  # tasks finished before the run broke off
    videos: bool = False
    successes: bool = False
    learner: dict = field(default_factory=lambda: {"learning_rate": 1e-3})

    @property
    def profile(self) -> Profile:
        return PROFILES.get(self.method, Profile(keep=0.6))


def write_run(root: Path, recipe: Recipe) -> Path:
    """Write one run folder below `root` and return it."""
    folder = root / f"{recipe.suite}-{recipe.method}-{recipe.preset}-{recipe.seed}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(_config(recipe)), encoding="utf-8")
    rng = np.random.default_rng([recipe.seed, *map(ord, recipe.method + recipe.suite)])
    metrics, timing = [], []
    finished = recipe.num_tasks if recipe.stop_after is None else recipe.stop_after
    for task in range(finished):
        metrics += _task_records(recipe, task, rng)
        timing += _task_times(recipe, task, rng)
    if finished == recipe.num_tasks:
        metrics.append({"kind": "end"})
    _write_lines(folder / "metrics.jsonl", metrics)
    _write_lines(folder / "timing.jsonl", timing)
    if recipe.videos:
        _write_videos(folder / "videos", finished)
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


def write_matrix(root: Path, method: str, returns, seed: int = 0, **options) -> Path:
    """A run whose final evaluations are exactly a given matrix; NaN cells are left out."""
    returns = np.asarray(returns, float)
    recipe = Recipe(method, seed, num_tasks=len(returns), stop_after=0, **options)
    folder = write_run(root, recipe)
    records = [
        _evaluation(i, j, "final", 4_000, 4_000 * (j + 1), [returns[i, j]])
        for j in range(len(returns))
        for i in range(j + 1)
        if np.isfinite(returns[i, j])
    ]
    _write_lines(folder / "metrics.jsonl", [*records, {"kind": "end"}])
    return folder


def _config(recipe: Recipe) -> dict:
    names = ["500/500 kg/m³", "100/500 kg/m³", "500/100 kg/m³", "500/250 kg/m³", "250/500 kg/m³"]
    return {
        "suite": recipe.suite,
        "method": recipe.method,
        "seed": recipe.seed,
        "preset": recipe.preset,
        "num_tasks": recipe.num_tasks,
        "planner": "icem",
        "tasks": [names[i % len(names)] for i in range(recipe.num_tasks)],
        "state_dim": 10,
        "learner": recipe.learner,
        "planning": {"num_samples": 128, "horizon": 20},
        "schedule": {"steps_per_task": recipe.steps_per_task, "update_every": 200},
        "versions": {"hypercrl": "0.1.0"},
    }


def _task_records(recipe: Recipe, task: int, rng) -> list[dict]:
    records, before = [], task * recipe.steps_per_task
    if task:
        records.append(_test(recipe, task, task - 1, "zero_shot", 0, before, ZERO_SHOT, rng))
    for step in range(recipe.episode_length, recipe.steps_per_task + 1, recipe.episode_length):
        total_step = before + step
        records.append(
            {
                "kind": "episode",
                "task": task,
                "episode": step // recipe.episode_length,
                "step": step,
                "total_step": total_step,
                "return": _draw(_progress(recipe, task, task, step), rng),
                "random": False,
            }
        )
        if step % 200 == 0:
            records.append(_session(task, step, total_step, rng))
        if recipe.eval_every and step % recipe.eval_every == 0 and step < recipe.steps_per_task:
            for old in range(task + 1):
                height = _progress(recipe, old, task, step)
                records.append(_test(recipe, old, task, "training", step, total_step, height, rng))
    end = recipe.steps_per_task
    for old in range(task + 1):
        height = _progress(recipe, old, task, end)
        records.append(_test(recipe, old, task, "final", end, before + end, height, rng))
    return records + _task_end(recipe, task, rng)


def _task_end(recipe: Recipe, task: int, rng) -> list[dict]:
    stored = int(recipe.steps_per_task * recipe.profile.memory_fraction) * 88
    cost = {
        "kind": "cost",
        "task": task,
        "parameters": 43_500 if recipe.profile.has_embeddings else 44_810 + 2_010 * task,
        "bytes_per_task": 160 if recipe.profile.has_embeddings else 8_040,
        "memory_bytes": stored * (task + 1),
        "evaluations_per_action": 7_680,
    }
    if not recipe.profile.has_embeddings:
        return [cost]
    vectors = np.random.default_rng(recipe.seed).normal(size=(recipe.num_tasks, 10))
    return [cost, {"kind": "embeddings", "after": task, "vectors": vectors[: task + 1].tolist()}]


def _progress(recipe: Recipe, old: int, task: int, step: int) -> float:
    """From 0 (idling) to 1 (learnt): a quick rise in its own task, then a decay."""
    share = step / recipe.steps_per_task
    if old == task:
        start = ZERO_SHOT if task else 0.0
        return start + (1 - start) / (1 + np.exp(-14 * (share - 0.3)))
    return recipe.profile.keep ** (task - old - 1 + share)


def _draw(height: float, rng) -> float:
    return round(float(IDLE + (LEARNT - IDLE) * height + rng.normal(0, 12) * height), 3)


def _test(recipe, task, after, phase, step, total_step, height, rng) -> dict:
    level = height * rng.normal(1.0, 0.04)
    returns = [_draw(level, rng) for _ in range(recipe.eval_episodes)]
    record = _evaluation(task, after, phase, step, total_step, returns)
    if recipe.successes:
        record["successes"] = [r > LEARNT / 2 for r in returns]
    record["one_step"] = round(0.08 + 0.5 * (1 - min(height, 1.0)), 4)
    record["h_step"] = round(0.2 + 0.9 * (1 - min(height, 1.0)), 4)
    return record


def _evaluation(task, after, phase, step, total_step, returns) -> dict:
    return {
        "kind": "evaluation",
        "task": task,
        "after": after,
        "phase": phase,
        "step": step,
        "total_step": total_step,
        "returns": list(returns),
        "successes": None,
        "one_step": None,
        "h_step": None,
    }


def _session(task: int, step: int, total_step: int, rng) -> dict:
    return {
        "kind": "session",
        "task": task,
        "step": step,
        "total_step": total_step,
        "loss": 0.1 + 1.0 / step,
        "regulariser": 0.01 * task,
        "validation": 0.12 + float(rng.uniform(0, 0.01)),
    }


def _task_times(recipe: Recipe, task: int, rng) -> list[dict]:
    each = 0.5 * (1 + recipe.profile.session_growth * task)
    steps = range(200, recipe.steps_per_task + 1, 200)
    sessions = [
        {"kind": "session", "task": task, "step": s, "seconds": each * rng.uniform(0.95, 1.05)}
        for s in steps
    ]
    training = each * len(steps)
    total = {"kind": "task", "task": task, "seconds": training + 60.0, "planning": 30.0}
    return [*sessions, {**total, "simulation": 20.0, "training": training, "evaluation": 10.0}]


def _write_lines(file: Path, records: list[dict]) -> None:
    file.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")


def _write_videos(folder: Path, finished: int) -> None:
    folder.mkdir()
    for after in range(finished):
        for task in range(after + 1):
            (folder / f"task-{task}-after-{after}.mp4").write_bytes(_video())


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
