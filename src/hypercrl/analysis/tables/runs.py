"""The runs behind all other tables: how far they came, what measures them, their settings."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from hypercrl.analysis.comparison import Comparison, Entry
from hypercrl.analysis.formatting import UNDEFINED, seeds
from hypercrl.analysis.labels import differing, write_value
from hypercrl.analysis.reference import METHOD, explain_missing
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.cells import sources
from hypercrl.errors import printable
from hypercrl.experiment.run_folder import Run
from hypercrl.reading import show


def runs_table(comparison: Comparison) -> Table:
    """Which runs stand behind the numbers, which code made them, and how far each has come."""
    rows = []
    for entry in comparison.entries:
        finished = sum(run.complete for run in entry.runs)
        reached = [len({e.after for e in r.evaluations if e.phase == "final"}) for r in entry.runs]
        open_runs = [
            f"seed {run.seed}: {_how_far(run, tasks)}"
            for run, tasks in zip(entry.runs, reached, strict=True)
            if not run.complete
        ]
        cells = (
            Cell(", ".join(map(str, entry.seeds))),
            Cell(f"{finished} of {len(entry.runs)}", "; ".join(open_runs)),
            Cell(entry.runs[0].config.planner),
            Cell(entry.made_by(comparison.current)),
            Cell(describe_reference(comparison, entry), is_prose=True),
        )
        rows.append((entry.label, cells))
    return Table(
        "runs",
        "Runs",
        "The runs behind every number of this suite; an unfinished one counts as far as it came. "
        "Code tells whether the software that reads them is the one that made them. Reference "
        "names the runs that normalised returns and forward transfer divide by.",
        "Method",
        ("Seeds", "Finished", "Planner", "Code", "Reference"),
        tuple(rows),
        sources(comparison.entries),
    )


def folders_table(comparison: Comparison) -> Table:
    """Where each run is, its schedule, and the command that carries it out again."""
    rows = []
    for entry in comparison.entries:
        for run in entry.runs:
            cells = (
                Cell(show(run.path), is_prose=True),
                Cell(_schedule(run), is_prose=True),
                Cell(_command(run), is_prose=True),
            )
            rows.append((f"{entry.label}, seed {run.seed}", cells))
    return Table(
        "folders",
        "Folders and commands",
        "The folder of each run as it was read, what it was told to do, and the command that "
        "does the same again, of which the folder's config.json is all that is needed (that of "
        f"version 0.1.0 is not understood any more: {UNDEFINED}).",
        "Run",
        ("Folder", "Schedule", "Command"),
        tuple(rows),
        sources(comparison.entries),
    )


def _command(run: Run) -> str:
    if not run.config.code:
        return UNDEFINED
    return printable(f"hypercrl train --config {shlex.quote(str(run.path))} --out again")


def _schedule(run: Run) -> str:
    told = run.config.schedule
    words = (
        ("steps_per_task", "control steps a task"),
        ("random_episodes", "random episodes first"),
        ("updates", "updates a session"),
        ("update_every", "steps between sessions"),
        ("eval_episodes", "test episodes"),
    )
    known = [f"{told[name]:,} {what}" for name, what in words if type(told.get(name)) is int]
    return "; ".join([f"{run.num_tasks} tasks", *known])


def all_settings_table(comparison: Comparison) -> Table:
    """Every setting of every entry."""
    settings = {entry.label: entry.runs[0].config.settings() for entry in comparison.entries}
    names = dict.fromkeys(name for own in settings.values() for name in own if "." in name)
    return Table(
        "all-settings",
        "All settings",
        f"Schedule, method and planner of every entry; {UNDEFINED} is a setting that an entry "
        "does not have.",
        "Setting",
        tuple(settings),
        _value_rows(settings, names),
        sources(comparison.entries),
    )


def _value_rows(
    settings: Mapping[str, Mapping[str, Any]], names: Iterable[str]
) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """What each of the labelled entries has for each of the settings named."""
    return tuple(
        (name, tuple(Cell(write_value(own.get(name))) for own in settings.values()))
        for name in names
    )


def _how_far(run: Run, tasks: int) -> str:
    if run.diverged is not None:
        return f"diverged in task {run.diverged.task + 1}"
    return f"{tasks} of {run.num_tasks} tasks"


def describe_reference(comparison: Comparison, entry: Entry) -> str:
    """The runs that an entry's r* comes from, or what is to be run for one."""
    if entry.is_reference:
        used = any(entry.runs[0] in other.yardstick.runs for other in comparison.entries)
        return "is one" if used else "is none: its settings match no other method's"
    names = [
        f"{other.label}, {seeds(other.seeds)}"
        for other in comparison.entries
        if other.runs[0] in entry.yardstick.runs
    ]
    singles = [run for run in comparison.runs if run.method == METHOD]
    return "; ".join(names) or explain_missing(entry.runs[0], singles)


def settings_table(comparison: Comparison) -> Table | None:
    """Every setting in which entries of one method differ: labels name one or two."""
    methods = [entry.method for entry in comparison.entries]
    entries = [entry for entry in comparison.entries if methods.count(entry.method) > 1]
    settings = {entry.label: entry.runs[0].config.settings() for entry in entries}
    names = dict.fromkeys(
        name
        for method in dict.fromkeys(methods)
        for name in differing([settings[e.label] for e in entries if e.method == method])
    )
    return Table(
        "settings",
        "Settings that differ",
        f"All settings in which entries of one method differ; {UNDEFINED} is one that an entry "
        "does not have.",
        "Setting",
        tuple(settings),
        _value_rows(settings, names),
        sources(entries),
    )
