"""Which runs a sweep consists of: suites × methods × seeds, from flags or from a YAML file.

A file holds the same names as the flags. Under `runs` it may list several selections that each
change some of them; a `name` then tells their folders apart:

    suite: pusher
    seeds: 4
    plugin: [my_planner.py]
    runs:
      - method: all
      - {method: hypercrl, name: weak, set: {learner.learning_rate: 1e-4}}
"""

import dataclasses
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypercrl import reading
from hypercrl.errors import UserError, printable
from hypercrl.experiment.config import RunConfig, change, has_setting, resolve
from hypercrl.reading import show
from hypercrl.registry import learners, load_plugin, suites
from hypercrl.training import default_folder, require_name

EVERYTHING = "all"
MOST_SEEDS = 100_000


@dataclass(frozen=True)
class Selection:
    """Every combination of these is a run."""

    suite: tuple[str, ...] = ()
    method: tuple[str, ...] = (EVERYTHING,)
    seeds: tuple[int, ...] = (0,)
    tasks: int | None = None
    preset: str | None = None
    planner: str | None = None
    hypernet: str | None = None
    regulariser: str | None = None
    name: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """A run and the name of its folder."""

    name: str
    config: RunConfig


def plan_runs(selections: Iterable[Selection]) -> tuple[PlannedRun, ...]:
    """All runs, each once, first seeds first: a comparison is complete as early as can be."""
    planned: dict[str, PlannedRun] = {}
    for selection in selections:
        for run in _expand(selection):
            known = planned.setdefault(run.name, run)
            if known.config != run.config:
                raise UserError(
                    f"The sweep has two different runs called '{run.name}'; give one selection "
                    "a name of its own."
                )
    return tuple(sorted(planned.values(), key=lambda run: run.config.seed))


def read_selections(path: Path, flags: Mapping[str, Any]) -> list[Selection]:
    """The selections of a YAML file; `flags` replace what it says.

    Its plugins, files seen from its own folder, are loaded beside those of the flags.
    """
    data = reading.read_yaml(path)
    if not isinstance(data, dict):
        raise UserError(f"The sweep file {show(path)} must map names such as 'suite' to values.")
    for plugin in _plugins(data.pop("plugin", None), path):
        load_plugin(plugin)
    parts = data.pop("runs", None) or [{}]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise UserError(f"'runs' in the sweep file {show(path)} must be a list of selections.")
    return [make_selection(_overlay(data, part, flags)) for part in parts]


def _overlay(*layers: Mapping[Any, Any]) -> dict[Any, Any]:
    """Each layer replaces what those before it say; settings are replaced name by name."""
    values = {name: value for layer in layers for name, value in layer.items()}
    settings = [layer["set"] for layer in layers if layer.get("set") is not None]
    if settings and all(isinstance(part, Mapping) for part in settings):
        values["set"] = {name: value for part in settings for name, value in part.items()}
    elif settings:
        values["set"] = next(part for part in settings if not isinstance(part, Mapping))
    return values


def make_selection(values: Mapping[Any, Any]) -> Selection:
    """A selection from flags or from YAML, where one name may stand for a list of one."""
    known = [f.name for f in dataclasses.fields(Selection)]
    for name in values:
        if name not in known:
            has = ", ".join([*known, "plugin", "runs"])
            raise UserError(f"A sweep has no {_short(name)}; it has: {has}.")
    given = {name: value for name, value in values.items() if value is not None}
    for name in ("suite", "method"):
        if name in given:
            given[name] = _names(name, given[name])
    if "seeds" in given:
        given["seeds"] = _seeds(given["seeds"])
    if "tasks" in given and type(given["tasks"]) is not int:
        raise UserError(f"'tasks' of a sweep must be a whole number, not {_short(given['tasks'])}.")
    for name in ("preset", "planner", "hypernet", "regulariser", "name"):
        if not isinstance(given.get(name, ""), str):
            raise UserError(f"'{name}' of a sweep must be a name, not {_short(given[name])}.")
    settings = given.get("set", {})
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise UserError("'set' of a sweep must map settings such as schedule.updates to values.")
    return Selection(**given)


def parse_settings(assignments: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` arguments as a mapping."""
    settings = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"A setting is written NAME=VALUE, unlike '{text}'.")
        settings[name] = value
    return settings


def _expand(selection: Selection) -> list[PlannedRun]:
    """The runs of one selection. A setting changes the runs that have it, at least one."""
    if not selection.suite:
        raise UserError("A sweep needs at least one suite; see `hypercrl list suites`.")
    unused = set(selection.set)
    runs = []
    for suite in _all_or(selection.suite, suites.names):
        for method in _all_or(selection.method, learners.names):
            config = resolve(
                suite,
                method,
                preset=selection.preset,
                planner=selection.planner,
                hypernet=selection.hypernet,
                regulariser=selection.regulariser,
                num_tasks=selection.tasks,
            )
            own = {n: value for n, value in selection.set.items() if has_setting(config, n)}
            unused -= own.keys()
            config = dataclasses.replace(change(config, own), name=selection.name)
            seeded = (dataclasses.replace(config, seed=seed) for seed in selection.seeds)
            runs += [PlannedRun(_folder_name(config, selection.name), config) for config in seeded]
    if unused:
        raise UserError(f"No run of the sweep has the setting '{min(unused)}'.")
    return runs


def _folder_name(config: RunConfig, name: str) -> str:
    stem, seed = default_folder(config).name.rsplit("-", 1)
    return require_name(f"{stem}-{name}-{seed}" if name else f"{stem}-{seed}")


def _all_or(names: Sequence[str], everything) -> Sequence[str]:
    return everything() if EVERYTHING in names else names


def _names(kind: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    several = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not several or not names:
        raise UserError(f"'{kind}' of a sweep must be one name or several, not {_short(value)}.")
    return tuple(names)


def _plugins(value: Any, file: Path) -> list[str]:
    names = [] if value is None else _names("plugin", value)
    return [str(file.parent / name) if name.endswith(".py") else name for name in names]


def _seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds counts from 0; a list names them."""
    if type(value) is int and value > MOST_SEEDS:
        raise UserError(f"'seeds' of a sweep may be at most {MOST_SEEDS:,}.")
    seeds: Any = tuple(range(value)) if type(value) is int else value
    whole = isinstance(seeds, list | tuple) and all(type(seed) is int for seed in seeds)
    if not whole or not seeds or min(seeds) < 0:
        raise UserError(
            f"'seeds' of a sweep must be a number of seeds or a list of them, not {_short(value)}."
        )
    return tuple(seeds)


def _short(value: Any) -> str:
    """A value within a sentence, however long and odd it is."""
    return reprlib.repr(value) if not isinstance(value, str) else f"'{printable(value)[:80]}'"
