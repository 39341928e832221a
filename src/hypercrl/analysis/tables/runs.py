"""The runs behind all other tables, and their settings."""

from collections.abc import Mapping
from typing import Any

from hypercrl.analysis.comparison import Comparison, flatten
from hypercrl.analysis.formatting import UNDEFINED
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.analysis.tables.shared import sources


def runs_table(comparison: Comparison) -> Table | None:
    """Which runs stand behind the numbers and how far each has come."""
    rows = []
    for entry in comparison.entries:
        finished = sum(run.complete for run in entry.runs)
        reached = [len({e.after for e in r.evaluations if e.phase == "final"}) for r in entry.runs]
        open_runs = [
            f"seed {run.seed}: {tasks} of {run.num_tasks} tasks"
            for run, tasks in zip(entry.runs, reached, strict=True)
            if not run.complete
        ]
        first = entry.runs[0].config
        cells = (
            Cell(", ".join(map(str, entry.seeds))),
            Cell(f"{finished} of {len(entry.runs)}", "; ".join(open_runs)),
            Cell(str(first.get("planner", UNDEFINED))),
            Cell(_settings(first.get("learner", {})), is_prose=True),
        )
        rows.append((entry.label, cells))
    return Table(
        "runs",
        "Runs",
        "The runs behind every number of this suite; an unfinished one counts as far as it came.",
        "Method",
        ("Seeds", "Finished", "Planner", "Settings"),
        tuple(rows),
        sources(comparison.entries),
    )


def _settings(learner: Mapping[str, Any]) -> str:
    names = ((key.replace(".", " ").replace("_", " "), v) for key, v in flatten(learner))
    return ", ".join(f"{name} {value}" for name, value in names)
