"""Write a task's controller in a form that runs without hypercrl: ONNX, and a JAX function.

usage: hypercrl export RUN OUT [--task TASK] [--plugin FILE]

RUN is the folder of a run, or the name of a suite that a trained controller comes with. OUT
becomes a folder with the dynamics model as ONNX, the whole planner step as a serialised JAX
function, and a program that uses them.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.threads import one_thread


@dataclass(frozen=True)
class Options(PluginOptions):
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run's folder, or a suite that a trained controller comes with."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """The folder to write."""
    task: str = "1"
    """Which task, counted from 1 or by its name."""


def run(args: list[str]) -> None:
    os.environ.update(one_thread(os.environ))
    options = parse_flags(Options, args, prog="hypercrl export", doc=__doc__)
    from hypercrl.experiment.controller import load
    from hypercrl.export.folder import export

    controller = load(options.run)
    done = export(controller, controller.find(options.task), options.out)
    if done.note:
        print(f"{done.note} The planner was exported without it.")
    else:
        print(f"The ONNX model agrees with the run's to {done.model_difference:.1g}.")
    print(f"The planner's actions agree to {done.action_difference:.1g} of their range.")
    print(f"The export is {done.folder}; `python {done.folder / 'run.py'}` tries it.")
