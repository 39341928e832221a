"""The resolved configuration of a run: what `config.json` holds and the command line changes."""

import dataclasses
import importlib.metadata
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import StoredConfig
from hypercrl.registry import hypernets, learners, planners, suites
from hypercrl.types import Learner, Planner, Settings, Suite

RECORDED_PACKAGES = ("hypercrl", "jax", "equinox", "optax", "mujoco", "gymnasium", "numpy")


@dataclass(frozen=True)
class Schedule:
    """Algorithm 1's counts. The paper's letters are in brackets."""

    random_episodes: int
    """Episodes of random actions before planning starts [P]."""
    steps_per_task: int
    """Planned control steps in a task [M × K]."""
    update_every: int
    """Control steps between training sessions [K]."""
    updates: int
    """Gradient steps in a session [S]."""
    exploration_beta: float = 0.0
    """Power-law exponent of the random actions over time; 0 is white noise (the paper's)."""
    episode_steps: int = 0
    """Cut training episodes short after so many control steps in the first half of a task; 0
    lets them end like tests."""
    continuing: bool = False
    """Never reset the environment within a task once planning has started."""
    eval_episodes: int = 10
    """Test episodes of each task seen, at the end of every task."""
    retest: bool = True
    """Test older tasks too at the end of every task, which shows what was forgotten."""
    eval_every: int = 0
    """Control steps between test episodes during a task; 0 tests at task ends only."""
    curve_episodes: int = 1
    """Test episodes of each task seen, during a task."""
    zero_shot: bool = True
    """Also test a task before anything has been learnt on it."""

    def __post_init__(self):
        positive = ("steps_per_task", "update_every", "eval_episodes", "curve_episodes")
        for name in positive:
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("random_episodes", "updates", "episode_steps", "eval_every"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} cannot be negative ({getattr(self, name)}).")
        if self.steps_per_task % self.update_every:
            raise UserError(
                f"steps_per_task ({self.steps_per_task}) must be a multiple of update_every "
                f"({self.update_every})."
            )
        if self.eval_every % self.update_every:
            raise UserError(
                f"eval_every ({self.eval_every}) must be a multiple of update_every "
                f"({self.update_every})."
            )

    @classmethod
    def configure(cls, settings: Settings) -> "Schedule":
        return cls(
            random_episodes=settings.random_episodes,
            exploration_beta=settings.exploration_beta,
            episode_steps=settings.episode_steps,
            steps_per_task=settings.steps_per_task,
            update_every=settings.update_every,
            updates=settings.updates,
            eval_episodes=settings.eval_episodes,
            eval_every=settings.eval_every,
        )

    @property
    def blocks(self) -> int:
        """Training sessions after the one on random data [M]."""
        return self.steps_per_task // self.update_every


@dataclass(frozen=True)
class RunConfig:
    """One run: a suite, a method, a planner and a seed, with everything they need."""

    suite: str
    method: str
    preset: str
    num_tasks: int
    seed: int
    schedule: Schedule
    learner: Learner
    planner: Planner
    name: str = ""
    """What a sweep file calls the experiment; empty for the method itself."""

    def __post_init__(self):
        if self.seed < 0:
            raise UserError(f"The seed cannot be negative ({self.seed}).")
        for part in (self.schedule, self.learner, self.planner):
            for name, value in dataclasses.asdict(part).items():  # pyright: ignore[reportArgumentType]
                if isinstance(value, float) and math.isnan(value):
                    raise UserError(f"{name} must be a number and not {value}.")

    def build_suite(self) -> Suite:
        return build_suite(self.suite, self.num_tasks)

    def to_stored(self) -> StoredConfig:
        """Plain data for `config.json`; everything that decides the run's numbers."""
        suite = self.build_suite()
        return StoredConfig(
            suite=self.suite,
            method=self.method,
            preset=self.preset,
            seed=self.seed,
            num_tasks=self.num_tasks,
            tasks=tuple(task.name for task in suite.tasks),
            planner=planners.name_of(type(self.planner)),
            schedule=_plain(self.schedule),
            learner=_plain(self.learner),
            planning=_plain(self.planner),
            state_dim=suite.spec.state_dim,
            action_dim=suite.spec.action_dim,
            name=self.name,
        )

    @classmethod
    def from_stored(cls, stored: StoredConfig) -> "RunConfig":
        """The inverse of `to_stored`."""
        try:
            return cls(
                suite=stored.suite,
                method=stored.method,
                preset=stored.preset,
                num_tasks=stored.num_tasks,
                seed=stored.seed,
                schedule=_restore(Schedule, stored.schedule),
                learner=_restore(learners.get(stored.method), stored.learner),
                planner=_restore(planners.get(stored.planner), stored.planning),
                name=stored.name,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"The stored configuration cannot be used: {error}.") from error


def build_suite(name: str, num_tasks: int | None = None) -> Suite:
    """A registered suite, with its own number of tasks unless another is asked for."""
    factory = suites.get(name)
    return factory() if num_tasks is None else factory(num_tasks)


def resolve(
    suite: str,
    method: str,
    *,
    preset: str | None = None,
    planner: str | None = None,
    num_tasks: int | None = None,
    seed: int = 0,
) -> RunConfig:
    """A suite's settings for a method: the starting point that flags then change."""
    built = build_suite(suite, num_tasks)
    preset = preset or next(iter(built.presets))
    if preset not in built.presets:
        known = ", ".join(built.presets)
        raise UserError(f"The suite '{suite}' has no preset '{preset}'; choose one of: {known}.")
    settings = built.presets[preset]
    return RunConfig(
        suite=suite,
        method=method,
        preset=preset,
        num_tasks=len(built.tasks),
        seed=seed,
        schedule=Schedule.configure(settings),
        learner=learners.get(method).configure(settings),
        planner=planners.get(planner or settings.planner).configure(settings.planning),
    )


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {name: importlib.metadata.version(name) for name in RECORDED_PACKAGES}
    return {"python": platform.python_version(), **found}


def _plain(value: Any) -> Any:
    """A configuration object as JSON would give it back."""
    if dataclasses.is_dataclass(value):
        plain = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        kind = {"kind": hypernets.name_of(type(value))} if isinstance(value, Hypernet) else {}
        return kind | plain
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _restore(cls: Any, data: Mapping[str, Any]) -> Any:
    """Rebuild a frozen dataclass, nested ones included, from its `asdict`."""
    defaults = {f.name: f.type for f in dataclasses.fields(cls)}
    values = {}
    for name, value in data.items():
        if name not in defaults:
            raise UserError(f"The stored configuration has an unknown setting '{name}'.")
        nested = defaults[name]
        if nested is Hypernet:
            chosen = hypernets.get(value["kind"])
            value = _restore(chosen, {k: v for k, v in value.items() if k != "kind"})
        elif dataclasses.is_dataclass(nested) and isinstance(value, dict):
            value = _restore(nested, value)
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return cls(**values)
