"""What `benchmarks/sequence.py` found, as a table and a figure.

    python benchmarks/study.py results/hypernetworks/pusher.jsonl results/hypernetworks/door.jsonl
    (and --figure docs/images/hypernetworks.png)

A line of the table is a candidate, over all seeds that there are: its size against the target
network's, the one-step error when tasks were just learnt and after all of them, both as means over
tasks ± one standard deviation, the largest drift of an old task, and the largest loss of a later
task's first update. The figure has
two panels a suite: error at the end against size, a colour a hypernetwork, filled where predictions
are held and hollow where weights are; and error at the end against the regulariser's strength,
relative to its default.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated, Any

import numpy as np
import tyro

from hypercrl.registry import hypernets, regularisers

Rows = list[dict]
SIZES = {"base", "hidden", "rank", "chunk_size", "num_vectors", "initialisation"}


def main(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional], figure: Path | None = None
) -> None:
    """Print the tables and draw the figure.

    Args:
        files: Lines of JSON that `sequence.py --out` has left.
        figure: Where the picture goes; none is drawn unless told.
    """
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    suites: dict[str, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        suites[row["suite"]][row["candidate"]].append(row)
    for suite, found in suites.items():
        print(
            f"\n{suite}\n\n| candidate | seeds | size | just learnt | at the end | drift | switch |"
        )
        print("|---|---|---|---|---|---|---|")
        for candidate, own in found.items():
            print(
                f"| `{candidate}` | {len(own)} | {own[0]['size']:.2f} × "
                f"| {spread(own, 'learnt')} | {spread(own, 'at_the_end')} "
                f"| {worst(own, 'drift', slice(None, -1)):.3f} "
                f"| {worst(own, 'first_loss', slice(1, None)):.1f} |"
            )
    if figure is not None:
        draw(suites, figure)


def spread(rows: Rows, what: str) -> str:
    means = [fmean(row[what]) for row in rows]
    return f"{fmean(means):.3f} ± {pstdev(means):.3f}"


def worst(rows: Rows, what: str, tasks: slice) -> float:
    return max(max(row[what][tasks], default=np.nan) for row in rows)


def parts(candidate: str) -> tuple[str, str, dict[str, str]]:
    """Hypernetwork, regulariser and settings of a candidate such as sequence.py takes."""
    _, *words = candidate.split(":")
    hypernet = next((word for word in words if word in hypernets.names()), "")
    regulariser = next((word for word in words if word in regularisers.names()), "predictions")
    return hypernet, regulariser, dict(word.split("=", 1) for word in words if "=" in word)


def draw(suites: dict[str, dict[str, Rows]], path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    picture = Figure(figsize=(10, 3.6 * len(suites)), layout="constrained")
    grid = picture.subplots(len(suites), 2, squeeze=False)
    colours = {name: f"C{number}" for number, name in enumerate(hypernets.names())}
    for (by_size, by_strength), (suite, found) in zip(grid, suites.items(), strict=True):
        for candidate, rows in found.items():
            hypernet, regulariser, settings = parts(candidate)
            ends = [fmean(row["at_the_end"]) for row in rows]
            mean, error = fmean(ends), pstdev(ends)
            if candidate == "single":
                for panel in (by_size, by_strength):
                    panel.axhline(mean, color="grey", linestyle=":", linewidth=1)
            if not hypernet:
                continue
            style: dict[str, Any] = {"marker": "o", "color": colours[hypernet], "capsize": 2}
            style["markerfacecolor"] = "white" if regulariser == "weights" else None
            if settings.keys() <= SIZES:
                by_size.errorbar(rows[0]["size"], mean, error, **style)
            if settings.keys() <= {"strength"}:
                usual = regularisers.get(regulariser)().strength
                factor = float(settings["strength"]) / usual if settings else 1.0
                by_strength.errorbar(factor, mean, error, **style)
        title = "one-step error after all tasks"
        by_size.set(title=suite, xscale="log", xlabel="size / target", ylabel=title)
        by_strength.set(title=suite, xscale="log", xlabel="strength / default")
    names = [Line2D([], [], marker="o", linestyle="", color=c, label=n) for n, c in colours.items()]
    hollow: dict[str, Any] = {"marker": "o", "linestyle": "", "color": "black"}
    names += [
        Line2D([], [], **hollow, label="predictions held"),
        Line2D([], [], **hollow, markerfacecolor="white", label="weights held"),
        Line2D([], [], linestyle=":", color="grey", label="single"),
    ]
    picture.legend(handles=names, loc="outside lower center", ncols=len(names), fontsize="small")
    picture.savefig(path, dpi=150)


if __name__ == "__main__":
    tyro.cli(main)
