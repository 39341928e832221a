"""Learn a suite's tasks one after another with a method.

usage: hypercrl train SUITE METHOD [--preset NAME] [--planner NAME] [--tasks N] [OPTIONS]

Or --config FILE instead of SUITE METHOD: a YAML file with the names of a sweep file, or the
config.json of any run; flags change what it says.

The same command continues a run that was interrupted. `hypercrl list` shows the suites,
methods and planners; `hypercrl train SUITE METHOD --help` shows every option with the value
that it has for that suite.
"""

import argparse
import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, missing, one_plugin_a_flag, parse_flags
from hypercrl.errors import UserError
from hypercrl.registry import load_plugin
from hypercrl.threads import one_thread

if TYPE_CHECKING:
    from hypercrl.experiment.config import RunConfig


CHOICES = ("preset", "planner", "hypernet", "regulariser", "tasks")
"""Flags that decide which options there are."""


def run(args: list[str]) -> None:
    choice = _choose(args)
    if choice.config is None and (choice.suite is None or choice.method is None):
        if "--help" not in args and "-h" not in args:
            raise missing(__doc__)
        print((__doc__ or "").strip())
        return
    for plugin in choice.plugin:  # they may bring the very suite or method
        load_plugin(plugin)
    os.environ.update(one_thread(os.environ))
    if choice.config is not None:
        config = _read(choice)
        _train(config, [config.suite, config.method, *args])
        return

    from hypercrl.experiment.config import resolve

    config = resolve(
        choice.suite,
        choice.method,
        preset=choice.preset,
        planner=choice.planner,
        hypernet=choice.hypernet,
        regulariser=choice.regulariser,
        num_tasks=choice.tasks,
    )
    _train(config, args)


def _read(choice: argparse.Namespace) -> "RunConfig":
    """The run that a file describes, and the flags beside it."""
    from hypercrl.experiment.config import RunConfig
    from hypercrl.experiment.run_folder import CONFIG, read_config
    from hypercrl.sweep.plan import plan_runs, read_selections

    path: Path = choice.config
    flags = {name: getattr(choice, name) for name in CHOICES if getattr(choice, name) is not None}
    if path.is_dir() or path.name == CONFIG:
        if flags:
            raise UserError(f"{path} fixes the run's '{min(flags)}'; leave that out.")
        return RunConfig.from_stored(read_config(path if path.is_dir() else path.parent))
    found = plan_runs(read_selections(path, flags))
    if len(found) != 1:
        raise UserError(
            f"{path} describes {len(found)} runs; `hypercrl train` carries out one, `hypercrl "
            "sweep --file` all of them."
        )
    return found[0].config


def _choose(args: list[str]) -> argparse.Namespace:
    """The arguments that decide which options there are, and what these are by default."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("suite", nargs="?")
    parser.add_argument("method", nargs="?")
    parser.add_argument("--preset")
    parser.add_argument("--planner")
    parser.add_argument("--hypernet")
    parser.add_argument("--regulariser")
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--plugin", action="append", default=[])
    parser.add_argument("--config", type=Path)
    try:
        return parser.parse_known_args(one_plugin_a_flag(args))[0]
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name}: {error.message}.") from error


def _train(stored: "RunConfig", args: list[str]) -> None:
    from rich.console import Console

    from hypercrl.experiment.display import for_console
    from hypercrl.experiment.runner import CHECKPOINT_SECONDS
    from hypercrl.experiment.video import Filming
    from hypercrl.learning.critic import Critic
    from hypercrl.presets import Schedule
    from hypercrl.registry import planners
    from hypercrl.training import default_folder
    from hypercrl.training import run as run_training
    from hypercrl.types import Learner, Planner

    @dataclass(frozen=True)
    class Options(PluginOptions):
        suite: Annotated[str, tyro.conf.Positional]
        """What to learn; `hypercrl list suites` shows them."""
        method: Annotated[str, tyro.conf.Positional]
        """How to learn it; `hypercrl list methods` shows them."""
        preset: str = stored.preset
        """Settings of the suite to start from."""
        planner: str = planners.name_of(type(stored.planner))
        """What turns the model into actions; it brings its own settings."""
        hypernet: str | None = None
        """Another hypernetwork than the preset's, with its own settings."""
        regulariser: str | None = None
        """Another regulariser than the preset's, with its own settings."""
        tasks: int = stored.num_tasks
        """How many tasks of the suite, from the first on."""
        config: Path | None = None
        """A file that describes the run: YAML as for a sweep, or any run's config.json."""
        seed: int = stored.seed
        """Seed of everything random in the run."""
        out: Path | None = None
        """The run's folder; a name under `runs` made of the choices if not given."""
        fresh: bool = False
        """Delete what the folder holds of the run and start over."""
        checkpoint_seconds: float = CHECKPOINT_SECONDS
        """Time between two checkpoints; 0 takes one after every step."""
        videos: bool = False
        """Film each task when it has just been learnt, and all of them at the end."""
        wandb: bool = False
        """Show the run in Weights & Biases too; needs `pip install hypercrl[wandb]`."""
        schedule: Annotated[Schedule, tyro.conf.arg(name="")] = stored.schedule
        learner: Learner = stored.learner
        planning: Planner = stored.planner
        critic: Critic = stored.critic

    prog = f"hypercrl train {stored.suite} {stored.method}"
    options = parse_flags(Options, args, prog=prog, doc=__doc__)
    config = dataclasses.replace(
        stored,
        seed=options.seed,
        schedule=options.schedule,
        learner=options.learner,
        planner=options.planning,
        critic=options.critic,
    )
    folder = options.out or default_folder(config)
    console = Console()
    filming = Filming(folder, config.num_tasks) if options.videos else None
    run_training(
        config,
        folder,
        for_console(config, console),
        fresh=options.fresh,
        checkpoint_seconds=options.checkpoint_seconds,
        wandb=options.wandb,
        after_task=filming,
    )
    if filming is not None and filming.problem:
        console.print(filming.problem, highlight=False, soft_wrap=True, markup=False)
    console.print(f"The run is in {folder}.", highlight=False, soft_wrap=True, markup=False)
