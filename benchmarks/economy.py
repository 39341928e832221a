"""Return against model evaluations: what a plan may cost before it loses anything.

    python benchmarks/economy.py runs/pusher-single-laptop-s300 --episodes 10 --out economy.jsonl
    python benchmarks/economy.py --plot economy.jsonl --figure docs/images/economy.png

Plans with the models of a finished run, in test episodes that start alike for all planners. Each
row is one lever of iCEM moved on its own (samples, rounds, a decay of the samples from round to
round, knots, the horizon), or MPPI or CEM at a like number of evaluations. A planner also decides
what data a model is learnt from, so what looks cheap here is then checked by training with it.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import contextlib
import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from hypercrl.analysis.statistics import mean_std
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import Controller, load
from hypercrl.experiment.episode import run_episode
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.planning.mppi import MPPI
from hypercrl.types import Planner

SHARES = (2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
ELITE_SHARE = 8  # samples to an elite


def main(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    episodes: int = 10,
    tasks: int = 2,
    only: str = "",
    out: Path | None = None,
    plot: Path | None = None,
    figure: Path = Path("economy.png"),
) -> None:
    """Measure, or plot what was measured.

    Args:
        runs: Folders of finished runs.
        episodes: Test episodes of a planner and task.
        tasks: How many of a run's tasks, from the first on.
        only: Planners whose name begins so.
        out: Where the rows go too, one line of JSON each.
        plot: A file of such rows to draw instead.
        figure: Where the picture goes.
    """
    if plot is not None:
        draw([json.loads(line) for line in plot.read_text().splitlines()], figure)
        return
    for run in runs:
        controller = load(run)
        for name, planner in variants(controller.config.planner):
            if not name.startswith(only):
                continue
            row = {
                "suite": controller.suite.name,
                "seed": controller.config.seed,
                "lever": name.split()[0],
                "planner": name,
                "evaluations": planner.evaluations_per_action,
                **measure(controller, planner, tasks, episodes),
            }
            mean, std = mean_std(np.array(row["returns"]).ravel())
            success = "" if row["success"] is None else f"  success {np.mean(row['success']):4.0%}"
            count = len(np.ravel(row["returns"]))
            error = 1.96 * (std or 0.0) / count**0.5
            others = "".join(f"  {what} {np.mean(x):.3g}" for what, x in row["measures"].items())
            print(
                f"{row['suite']:13}{name:22}{row['evaluations']:7,}"
                f"{mean:9.1f} ± {error:.1f}{success}{others}",
                flush=True,
            )
            if out is not None:
                with out.open("a") as file:
                    print(json.dumps(row), file=file)


def variants(planner: Planner) -> Iterator[tuple[str, Planner]]:
    """Named planners around the one that a run was learnt with."""
    assert isinstance(planner, ICEM), "The levers are iCEM's."
    yield "icem", planner
    for share in SHARES:
        if share != 1:
            yield f"samples x {share:g}", with_samples(planner, planner.num_samples * share)
    for rounds in (1, 2, 4):
        if rounds != planner.num_iterations:
            yield f"rounds {rounds}", replace(planner, num_iterations=rounds)
    for elites in (4, 2):
        most = planner.num_samples // elites
        yield f"elites 1/{elites}", replace(planner, num_elites=most)
    for rounds, share in ((2, 1 / 2), (2, 1 / 4), (1, 1 / 2)):
        few = with_samples(planner, planner.num_samples * share)
        yield f"rounds {rounds} x {share:g}", replace(few, num_iterations=rounds)
    for decay in (1.5, 2.0):
        yield f"decay {decay:g}", replace(planner, decay=decay)
    for knots in (planner.horizon // 4, planner.horizon // 2):
        if knots >= 2:
            yield f"knots {knots}", replace(planner, knots=knots)
            half = with_samples(planner, planner.num_samples / 2)
            yield f"knots {knots} x 0.5", replace(half, knots=knots)
    for share in (0.75, 0.5):
        yield f"horizon x {share:g}", replace(planner, horizon=round(planner.horizon * share))
    sizes = {"horizon": planner.horizon, "num_iterations": planner.num_iterations}
    for share in (1.0, 1 / 2, 1 / 4):
        count = max(4, round(planner.num_samples * share))
        yield f"mppi x {share:g}", MPPI(num_samples=count, noise_beta=planner.noise_beta, **sizes)
    for share in (2.0, 1.0, 1 / 2):
        sizes["num_iterations"] = planner.num_iterations - 1 or 1
        count = max(8, round(planner.num_samples * share))
        yield f"cem x {share:g}", CEM(num_samples=count, num_elites=max(2, count // 12), **sizes)


def with_samples(planner: ICEM, count: float) -> ICEM:
    samples = max(4, round(count))
    elites = max(2, samples // ELITE_SHARE)
    kept = min(planner.num_kept, elites)
    return replace(planner, num_samples=samples, num_elites=elites, num_kept=kept)


def measure(controller: Controller, planner: Planner, num_tasks: int, episodes: int) -> dict:
    """Returns [tasks, episodes], successes where the suite knows them, and its measures."""
    suite, returns, successes = controller.suite, [], []
    measures: dict[str, list[list[float]]] = {name: [] for name in suite.measures}
    for task in range(num_tasks):
        actor = Actor(
            suite.tasks[task],
            suite.spec,
            planner,
            seed=controller.config.seed,
            purpose=("economy", task),
        )
        act = functools.partial(actor.plan, controller.model(task), controller.value(task))
        with contextlib.closing(actor):
            found = [run_episode(act) for _ in range(episodes)]
        returns.append([episode.total for episode in found])
        if suite.success is not None:
            successes.append([bool(suite.success(episode.states)) for episode in found])
        for name, of in suite.measures.items():
            measures[name].append([float(of(episode.states)) for episode in found])
    return {"returns": returns, "success": successes or None, "measures": measures}


def draw(rows: list[dict], figure: Path) -> None:
    """One panel a suite: return against evaluations, a line a lever."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    names = sorted({row["suite"] for row in rows})
    levers = list(dict.fromkeys(row["lever"] for row in rows))
    picture = Figure(figsize=(3.2 * len(names), 3.6), layout="constrained")
    for panel, suite in zip(picture.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        own = [row for row in rows if row["suite"] == suite]
        for number, lever in enumerate(levers):
            points = sorted(
                (row["evaluations"], *_interval(row)) for row in own if row["lever"] == lever
            )
            if not points:
                continue
            x, mean, error = (np.array(column) for column in zip(*points, strict=True))
            # A little apart, where several levers come to the same number of evaluations.
            x = x * 1.02 ** (number - len(levers) / 2)
            style = {"marker": "*", "markersize": 12, "color": "black", "zorder": 3}
            style = style if lever == "icem" else {"marker": "o", "markersize": 3}
            panel.errorbar(x, mean, error, linewidth=1, capsize=2, label=lever, **style)
        panel.set(title=suite, xlabel="model evaluations an action", xscale="log")
        panel.xaxis.set_minor_formatter(NullFormatter())
    picture.axes[0].set_ylabel("return, mean and 95 % interval")
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(levers), fontsize="small")
    picture.savefig(figure, dpi=150)


def _interval(row: dict) -> tuple[float, float]:
    mean, std = mean_std(np.array(row["returns"]).ravel())
    return mean, 1.96 * (std or 0.0) / np.size(row["returns"]) ** 0.5


if __name__ == "__main__":
    tyro.cli(main)
