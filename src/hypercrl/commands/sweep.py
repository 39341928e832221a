"""Carry out many runs: suites × methods × seeds, side by side.

The same command skips what is finished and goes on with what is not.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError, printable
from hypercrl.registry import loaded_plugins

if TYPE_CHECKING:
    from rich.console import Console

    from hypercrl.sweep.location import Location
    from hypercrl.sweep.plan import PlannedRun
    from hypercrl.sweep.session import Launcher
    from hypercrl.sweep.status import RunStatus

REPORT = "report"


@dataclass(frozen=True)
class Options(PluginOptions):
    suite: tuple[str, ...] = ()
    """Suites, or `all`."""
    method: tuple[str, ...] = ()
    """Methods, or `all`, which is the default."""
    seeds: int | None = None
    """How many seeds, counted from 0."""
    tasks: int | None = None
    """Tasks of each suite; its own number if not given."""
    preset: str | None = None
    """Settings of the suite; its first if not given."""
    planner: str | None = None
    """Planner; the preset's own if not given."""
    hypernet: str | None = None
    """Hypernetwork, for methods that have one; the preset's own if not given."""
    regulariser: str | None = None
    """Regulariser, for methods that have one; the preset's own if not given."""
    settings: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE")] = ()
    """Changes such as schedule.updates=100, learner.learning_rate=1e-4 or planning.horizon=10, for
    every run that has such a setting."""
    file: Path | None = None
    """A YAML file with these names, for anything richer; flags replace what it says."""
    out: str = "runs"
    """Folder of the runs, or a URL that fsspec knows."""
    videos: bool = False
    """Film every task at the end of each run."""
    wandb: bool = False
    """Show every run in Weights & Biases too; needs `pip install hypercrl[wandb]`."""
    checkpoint_seconds: float | None = None
    """Time between two checkpoints of a run; as for `hypercrl train` if not given."""
    report: bool = True
    """End with the tables and the report page."""
    jobs: int | None = None
    """Runs at a time; as many as there are cores if not given."""
    launcher: Literal["local", "ray"] = "local"
    """Where runs are carried out: on this machine, or on a Ray cluster."""
    address: str | None = None
    """The Ray cluster, such as `auto`, HOST:PORT or ray://HOST:PORT."""
    gpus_per_run: float = 0.0
    """GPUs that a run asks Ray for; a fraction shares one."""


def run(args: list[str]) -> None:
    options = parse_flags(Options, args, prog="hypercrl sweep", doc=__doc__)
    from rich.console import Console

    from hypercrl.sweep.location import open_location

    console = Console()
    _leave_accelerators_alone()
    plan = _plan(options)
    location = open_location(options.out)
    try:
        statuses = _carry_out(plan, location, options, console)
        if options.report:
            _conclude(statuses, location, options.out, console)
    finally:
        location.close()
    failed = [status for status in statuses if status.state == "failed"]
    if failed:
        console.print(f"{len(failed)} of {len(statuses)} runs failed:", style="bold red")
        for status in failed:
            line = f"  {status.name}: {printable(status.reason)}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print("The same command tries them again.")
        sys.exit(1)


def _leave_accelerators_alone() -> None:
    """Planning touches JAX, and must not take the memory of a GPU that the runs will need."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def _plan(options: Options) -> "tuple[PlannedRun, ...]":
    from hypercrl.sweep.plan import make_selection, parse_settings, plan_runs, read_selections

    names = ("suite", "method", "seeds", "tasks", "preset", "planner", "hypernet", "regulariser")
    flags: dict[str, Any] = {name: getattr(options, name) for name in names}
    flags["set"] = parse_settings(options.settings)
    given = {name: value for name, value in flags.items() if value not in (None, (), {})}
    if options.file is not None:
        return plan_runs(read_selections(options.file, given))
    return plan_runs([make_selection(given)])


def _carry_out(
    plan: "tuple[PlannedRun, ...]",
    location: "Location",
    options: Options,
    console: "Console",
) -> "list[RunStatus]":
    from hypercrl.experiment.trackers import require_wandb
    from hypercrl.sweep.session import Session, Shared
    from hypercrl.sweep.table import display_for

    if options.wandb:
        require_wandb()
    shared = Shared(
        _absolute_out(options.out),
        loaded_plugins(),
        options.videos,
        options.checkpoint_seconds,
        options.wandb,
    )
    launcher = _launcher(options)
    return Session(plan, location, launcher, display_for(console), shared).run()


def _launcher(options: Options) -> "Launcher":
    if options.launcher == "ray":
        from hypercrl.sweep.ray_launcher import RayLauncher

        return RayLauncher(options.address, options.jobs, options.gpus_per_run)
    if options.address is not None or options.gpus_per_run:
        raise UserError("--address and --gpus-per-run belong to --launcher ray.")
    from hypercrl.sweep.local import LocalLauncher

    return LocalLauncher(options.jobs)


def _conclude(
    statuses: "list[RunStatus]", location: "Location", out: str, console: "Console"
) -> None:
    """The tables and the report page of the sweep's runs."""
    from hypercrl.analysis.report import write_report
    from hypercrl.analysis.summary import summarise
    from hypercrl.experiment.code import this_code
    from hypercrl.experiment.run_folder import CONFIG

    location.refresh(status.name for status in statuses if not status.damage)
    folders = [s.folder for s in statuses if os.path.lexists(s.folder / CONFIG)]
    if not folders:
        return
    current = this_code().fingerprint
    summarise(folders, console, current=current)
    page = write_report(folders, location.view / REPORT, current=current)
    location.publish(page.parent)
    place = f"{out.rstrip('/')}/{page.relative_to(location.view)}"
    line = f"The report is {printable(place)}."
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def _absolute_out(out: str) -> str:
    return out if "://" in out else str(Path(out).resolve())
