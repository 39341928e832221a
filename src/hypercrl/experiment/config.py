"""The resolved configuration of a run: what `config.json` holds and the command line changes."""

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.errors import UserError, boundary, printable
from hypercrl.experiment.run_folder import StoredConfig
from hypercrl.learning.critic import Critic
from hypercrl.learning.regulariser import Regulariser
from hypercrl.presets import Preset, Schedule
from hypercrl.registry import (
    hypernets,
    learners,
    load_plugin,
    loaded_plugins,
    planners,
    regularisers,
    suites,
)
from hypercrl.trust import is_trusted
from hypercrl.types import Learner, Planner, Suite

SECTIONS = {
    "schedule": "schedule",
    "learner": "learner",
    "planning": "planner",
    "critic": "critic",
}
"""What a setting's name begins with, and the part of a `RunConfig` that it then is in."""

KIND = "kind"  # of a part that has variants, beside its fields
VARIANTS = {Hypernet: hypernets, Regulariser: regularisers}
"""Parts of a method that have variants, and where these are registered."""

RECORDED_PACKAGES = ("hypercrl", "jax", "equinox", "optax", "mujoco", "gymnasium", "numpy")


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
    critic: Critic = Critic()
    name: str = ""
    """What a sweep file calls the experiment; empty for the method itself."""

    def __post_init__(self):
        if self.seed < 0:
            raise UserError(f"The seed cannot be negative ({self.seed}).")
        for part in (self.schedule, self.learner, self.planner, self.critic):
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
            critic=_plain(self.critic),
            state_dim=suite.spec.state_dim,
            action_dim=suite.spec.action_dim,
            name=self.name,
            plugins=loaded_plugins(),
        )

    @classmethod
    def from_stored(cls, stored: StoredConfig) -> "RunConfig":
        """The inverse of `to_stored`; the plugins that the run names are loaded."""
        _load_plugins(stored)
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
                critic=_restore(Critic, stored.critic),
                name=stored.name,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"The stored configuration cannot be used: {error}.") from error


def _load_plugins(stored: StoredConfig) -> None:
    """What the run was made with, as far as this person has named it before.

    A folder may come from anybody, and to import is to run. A plugin that has gone, or that
    nobody here has named, is not missed if another has brought the names.
    """
    for plugin in stored.plugins:
        problem = f"The run was made with the plugin '{printable(plugin)}'"
        try:
            if is_trusted(plugin):
                load_plugin(plugin)
                continue
            problem += ", which you have never named here; add --plugin if you trust it."
        except UserError as error:
            problem += f", but: {error} --plugin names another."
        names = (suites, stored.suite), (learners, stored.method), (planners, stored.planner)
        if any(name not in registry.names() for registry, name in names):
            raise UserError(problem)


def completed(stored: StoredConfig) -> StoredConfig:
    """A stored configuration with settings that it is too old to have at their defaults."""
    try:
        known = RunConfig.from_stored(stored)
    except UserError:
        return stored  # of a method, say, that is not known here
    return dataclasses.replace(
        stored,
        schedule=_plain(known.schedule),
        learner=_plain(known.learner),
        planning=_plain(known.planner),
        critic=_plain(known.critic),
    )


def build_suite(name: str, num_tasks: int | None = None) -> Suite:
    """A registered suite, with its own number of tasks unless another is asked for."""
    factory = suites.get(name)
    with boundary(f"The suite '{name}'", exits=True):
        return factory() if num_tasks is None else factory(num_tasks)


def resolve(
    suite: str,
    method: str,
    *,
    preset: str | None = None,
    planner: str | None = None,
    hypernet: str | None = None,
    regulariser: str | None = None,
    num_tasks: int | None = None,
    seed: int = 0,
) -> RunConfig:
    """A suite's preset for a method: the starting point that flags then change."""
    built = build_suite(suite, num_tasks)
    preset = preset or next(iter(built.presets))
    if preset not in built.presets:
        known = ", ".join(built.presets)
        raise UserError(f"The suite '{suite}' has no preset '{preset}'; choose one of: {known}.")
    settings: Preset = built.presets[preset]
    return RunConfig(
        suite=suite,
        method=method,
        preset=preset,
        num_tasks=len(built.tasks),
        seed=seed,
        schedule=settings.schedule,
        learner=settings.learner(method, hypernet, regulariser),
        planner=settings.planner(planner),
        critic=settings.critic,
    )


def has_setting(config: RunConfig, name: str) -> bool:
    """Whether a run has a setting such as `learner.learning_rate`."""
    owner: Any = config
    for part in _place(name):
        if not dataclasses.is_dataclass(owner) or not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def change(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The run with settings such as `learner.learning_rate` changed, all at once.

    Values are of the kind that the setting has now; text is read as JSON where it can be.
    """
    nested: dict[str, Any] = {}
    for name, value in changes.items():
        *path, last = _place(name)
        node = nested
        for part in path:
            node = node.setdefault(part, {})
        node[last] = _Change(name, value)
    return _apply(config, nested)


@dataclass(frozen=True)
class _Change:
    """A value to be, and the whole name of its setting."""

    name: str
    value: Any


def _place(name: str) -> list[str]:
    """The attributes that lead from a `RunConfig` to a setting."""
    section, *path = name.split(".")
    if section not in SECTIONS or not path:
        raise UserError(
            f"The setting '{name}' must begin with one of: "
            f"{', '.join(f'{known}.' for known in SECTIONS)}."
        )
    return [SECTIONS[section], *path]


def _apply(owner: Any, changes: Mapping[str, Any]) -> Any:
    known = [field.name for field in dataclasses.fields(owner)]
    values = {}
    for name, new in changes.items():
        if name not in known:
            raise UserError(
                f"{type(owner).__name__} has no setting '{name}'; it has: {', '.join(known)}."
            )
        current = getattr(owner, name)
        if isinstance(new, _Change):
            values[name] = _convert(new, current)
        elif dataclasses.is_dataclass(current):
            values[name] = _apply(current, new)
        else:
            raise UserError(f"{type(owner).__name__}'s {name} has no settings of its own.")
    return dataclasses.replace(owner, **values)


def _convert(change: _Change, current: Any) -> Any:
    value = change.value
    if isinstance(value, str) and not isinstance(current, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(current, float) and type(value) is int:
        value = float(value)
    both_parts = dataclasses.is_dataclass(value) and dataclasses.is_dataclass(current)
    if current is not None and type(value) is not type(current) and not both_parts:
        raise UserError(
            f"The setting '{change.name}' is {current!r} by default and cannot become {value!r}."
        )
    return value


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {name: importlib.metadata.version(name) for name in RECORDED_PACKAGES}
    return {"python": platform.python_version(), **found}


def _plain(value: Any) -> Any:
    """A configuration object as JSON would give it back; a part with variants says its kind."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not dataclasses.is_dataclass(value):
        return value
    registry = next((known for part, known in VARIANTS.items() if isinstance(value, part)), None)
    kind = {} if registry is None else {KIND: registry.name_of(type(value))}
    return kind | {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}


def _restore(cls: Any, data: Mapping[str, Any]) -> Any:
    """Rebuild a frozen dataclass, nested ones included, from its plain data."""
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in dataclasses.fields(cls)}
    values = {}
    for name, value in data.items():
        if name not in known:
            raise UserError(f"The stored configuration has an unknown setting '{name}'.")
        if isinstance(value, Mapping) and KIND in value:
            rest = {key: one for key, one in value.items() if key != KIND}
            value = _restore(VARIANTS[known[name]].get(value[KIND]), rest)
        elif isinstance(value, Mapping) and dataclasses.is_dataclass(known[name]):
            value = _restore(known[name], value)
        elif isinstance(value, list | tuple):
            value = tuple(value)
        values[name] = value
    return cls(**values)
