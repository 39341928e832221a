"""Try suites, methods and planners of one's own against the contracts of the built-in ones.

usage: hypercrl check [NAME…] [--plugin FILE]

NAME is a suite, a method or a planner; without one, everything is tried that the plugins have
registered. A promise that is broken is told in one sentence, and the command then ends with
status 1.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hypercrl.commands.arguments import PluginOptions, parse_flags
from hypercrl.errors import UserError
from hypercrl.registry import Registry, learners, planners, suites
from hypercrl.threads import one_thread

if TYPE_CHECKING:
    from hypercrl.contracts.promises import Promise

    # What is tried, what it promises, and what makes the form in which it is tried.
    Trial = tuple[str, Sequence[Promise], Callable[[], Any]]

KINDS = {"suite": suites, "method": learners, "planner": planners}


@dataclass(frozen=True)
class Options(PluginOptions):
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME…")] = ()
    """Suites, methods and planners; everything that the plugins register if not given."""


def run(args: list[str]) -> None:
    os.environ.update(one_thread(os.environ))
    known = {kind: set(registry.names()) for kind, registry in KINDS.items()}
    options = parse_flags(Options, args, prog="hypercrl check", doc=__doc__)
    chosen = _named(options.names) if options.names else _new(known)
    num_broken = sum(_try(trial) for kind, name in chosen for trial in _trials(kind, name))
    if num_broken:
        promises = "1 promise is" if num_broken == 1 else f"{num_broken} promises are"
        print(f"{promises} broken.", file=sys.stderr)
        sys.exit(1)


def _named(names: tuple[str, ...]) -> list[tuple[str, str]]:
    chosen = []
    for name in names:
        kinds = [kind for kind, registry in KINDS.items() if name in registry.names()]
        if not kinds:
            raise UserError(
                f"There is no suite, method or planner called '{name}'; see `hypercrl list`."
            )
        chosen += [(kind, name) for kind in kinds]
    return chosen


def _new(known: dict[str, set[str]]) -> list[tuple[str, str]]:
    """What has been registered by the plugins."""
    found = [
        (kind, name)
        for kind, registry in KINDS.items()
        for name in registry.names()
        if name not in known[kind]
    ]
    if not found:
        raise UserError(
            "There is nothing to check; name a suite, method or planner, or a --plugin that "
            "registers one."
        )
    return found


def _trials(kind: str, name: str) -> "Iterator[Trial]":
    """What there is to try of a variant; a suite is tried task by task."""
    registry: Registry = KINDS[kind]
    if registry is planners:
        from hypercrl.contracts import planner

        yield f"planner {name}", planner.PROMISES, lambda: name
    elif registry is learners:
        from hypercrl.contracts import learner
        from hypercrl.contracts.sequence import learn_sequence

        yield f"method {name}", learner.PROMISES, lambda: learn_sequence(learner.make(name))
    else:
        from hypercrl.contracts import suite as contract

        suite = registry.get(name)()
        for index, task in enumerate(suite.tasks):
            title = f"suite {name}, task {index + 1} ({task.name})"
            yield title, contract.PROMISES, functools.partial(contract.Trial, suite, index)


def _try(trial: "Trial") -> int:
    """Print what becomes of every promise; returns how many were broken."""
    from rich.console import Console

    from hypercrl.contracts.promises import try_out

    console = Console()
    title, promises, set_up = trial
    console.print(title, style="bold", markup=False, highlight=False)
    num_broken = 0
    for verdict in try_out(promises, set_up):
        broken = bool(verdict.problem)
        num_broken += broken
        mark = "[red]✗[/red]" if broken else "[green]✓[/green]"
        console.print(f"  {mark}", verdict.promise, highlight=False, soft_wrap=True)
        if broken:
            console.print("   ", verdict.problem, markup=False, highlight=False, soft_wrap=True)
    return num_broken
