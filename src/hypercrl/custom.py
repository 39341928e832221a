"""A suite of one's own: a list of Gymnasium environments and one JAX reward function.

    suite = suite_from_envs("pendulum", [("Pendulum-v1", {"g": g}) for g in (10, 5)], reward)
    register_suite(suite)

Everything that can be wrong with them is looked for here, before a run starts, and told in one
sentence. `examples/pendulum_suite.py` is a complete suite.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Encoding
from hypercrl.errors import UserError, boundary, describe
from hypercrl.experiment.actor import Actor, check_reward
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.presets import LAPTOP_METHODS, Preset, Schedule
from hypercrl.registry import suites
from hypercrl.types import Reward, Spec, Suite, Task

EnvSource = str | tuple[str, Mapping[str, Any]] | Callable[[], gymnasium.Env]


def suite_from_envs(
    name: str,
    envs: Sequence[EnvSource],
    reward: Reward,
    *,
    episode_length: int | None = None,
    encoding: Encoding | None = None,
    preset: Preset | None = None,
    task_names: Sequence[str] | None = None,
    success: Callable[[Any], bool] | None = None,
) -> Suite:
    """A suite whose tasks are `envs`, in order, under one known reward r(s, a, s').

    An environment is given as a Gymnasium id, as an id with its keyword arguments, or as a
    function without arguments that makes it (which then decides about rendering itself).
    States and actions are vectors (`Box`), alike in all tasks; actions are bounded. The
    episode length defaults to the time limit that Gymnasium knows, the encoding to plain
    differences, the preset to `default_preset`.
    """
    if not (isinstance(name, str) and name.replace("-", "_").isidentifier()):
        raise UserError(f"A suite's name is letters, digits, '-' and '_', unlike {name!a}.")
    if not envs:
        raise UserError(f"The suite '{name}' needs at least one environment.")
    if episode_length is not None and episode_length < 1:
        raise UserError(f"The episode_length must be at least 1, not {episode_length}.")
    names = _task_names(name, envs, task_names)
    tasks = tuple(
        Task(task, functools.partial(_make, source), reward)
        for task, source in zip(names, envs, strict=True)
    )
    specs = [_inspect(task, episode_length, encoding) for task in tasks]
    for task, spec in zip(tasks, specs, strict=True):
        _require_alike(tasks[0].name, specs[0], task.name, spec)
    chosen = preset or default_preset(specs[0].episode_length)
    return Suite(name, specs[0], tasks, {"custom": chosen}, success)


def register_suite(suite: Suite) -> Suite:
    """Make a suite known by its name to `hypercrl.train` and to the command line."""
    if suite.name in suites.builtin_modules:
        raise UserError(f"The suite name '{suite.name}' is taken by a built-in suite.")
    # Lists and clashes of names then speak of the user's module and not of this one.
    return _register(suite, suite.tasks[0].reward.__module__)


def append_tasks(
    suite: str,
    envs: Sequence[EnvSource],
    *,
    after: int,
    reward: Reward | None = None,
    task_names: Sequence[str] | None = None,
) -> Suite:
    """Let a known suite go on with environments of one's own after its first `after` tasks.

    They are given as to `suite_from_envs` and have the suite's spaces; the reward defaults to
    that of the task before them. The suite is a longer one wherever this has been called, so a
    run on it can be extended, and loaded, from there on.
    """
    factory = suites.get(suite)
    base: Suite = factory(after)
    own = tuple(
        Task(name, functools.partial(_make, source), reward or base.tasks[-1].reward)
        for name, source in zip(_task_names(suite, envs, task_names), envs, strict=True)
    )
    for task in own:
        found = _inspect(task, base.spec.episode_length, base.spec.encoding)
        _require_alike(base.tasks[0].name, base.spec, task.name, found)
    longer = dataclasses.replace(base, tasks=(*base.tasks, *own))
    return _register(longer, factory.__module__)


def _register(suite: Suite, module: str) -> Suite:
    def first_tasks(num_tasks: int = len(suite.tasks)) -> Suite:
        if not 1 <= num_tasks <= len(suite.tasks):
            raise UserError(
                f"The suite '{suite.name}' has 1 to {len(suite.tasks)} tasks and cannot make "
                f"{num_tasks}."
            )
        return dataclasses.replace(suite, tasks=suite.tasks[:num_tasks])

    first_tasks.__module__ = module
    suites.register(suite.name)(first_tasks)
    return suite


def default_preset(episode_length: int) -> Preset:
    """Small hypernetwork, scaled targets, annealed steps, iCEM: what `laptop` presets share."""
    return Preset(
        schedule=Schedule(
            steps_per_task=20 * episode_length, update_every=episode_length, updates=500
        ),
        network=Network(scale_targets=True),
        hypernet=ChunkedHypernet(hidden=(20, 20), initialisation="hyperfan"),
        training=Training(anneal=True),
        planners=(ICEM(decay=1.5), CEM()),
        methods=LAPTOP_METHODS,
    )


def _task_names(
    suite: str, envs: Sequence[EnvSource], given: Sequence[str] | None
) -> Sequence[str]:
    names = [_describe(i, source) for i, source in enumerate(envs)] if given is None else given
    if len(names) != len(envs):
        raise UserError(
            f"The suite '{suite}' has {len(envs)} environments but {len(names)} task names."
        )
    for name in names:
        if not isinstance(name, str) or not name.isprintable():
            raise UserError(f"A task's name is one line of text, unlike {name!a}.")
    return names


def _describe(index: int, source: EnvSource) -> str:
    if isinstance(source, str):
        return source
    if isinstance(source, tuple):
        return ", ".join(f"{key}={value}" for key, value in source[1].items()) or source[0]
    return f"task {index}"


def _make(source: EnvSource, render_mode: str | None = None) -> gymnasium.Env:
    if callable(source):
        with boundary("An environment of the suite", exits=True):
            return source()
    env_id, kwargs = (source, {}) if isinstance(source, str) else source
    try:
        return gymnasium.make(env_id, render_mode=render_mode, **kwargs)
    except Exception as error:
        raise UserError(f"Gymnasium cannot make '{env_id}': {describe(error)}.") from error


def _inspect(task: Task, episode_length: int | None, encoding: Encoding | None) -> Spec:
    """What the environment says about itself, once a step of it has been tried."""
    env = task.make(None)
    try:
        state_space = _require_vector(task.name, "observation", env.observation_space)
        action_space = _require_vector(task.name, "action", env.action_space)
        if not (np.isfinite(action_space.low).all() and np.isfinite(action_space.high).all()):
            raise UserError(f"The action space of task '{task.name}' must have finite bounds.")
        spec = Spec(
            state_dim=state_space.shape[0],
            action_dim=action_space.shape[0],
            action_low=tuple(action_space.low.tolist()),
            action_high=tuple(action_space.high.tolist()),
            episode_length=episode_length or _time_limit(task.name, env),
            encoding=encoding or Encoding.differences(state_space.shape[0]),
        )
    finally:
        env.close()
    if spec.encoding.state_dim != spec.state_dim:
        raise UserError(
            f"The encoding is for {spec.encoding.state_dim} numbers but the states of task "
            f"'{task.name}' have {spec.state_dim}."
        )
    _try_one_step(task, spec)
    return spec


def _require_vector(task: str, kind: str, space: gymnasium.Space) -> gymnasium.spaces.Box:
    if not isinstance(space, gymnasium.spaces.Box):
        raise UserError(
            f"The {kind} space of task '{task}' must be a Box and not {type(space).__name__}."
        )
    if len(space.shape) != 1:
        raise UserError(
            f"The {kind} space of task '{task}' must be a vector and not of shape {space.shape}."
        )
    return space


def _time_limit(task: str, env: gymnasium.Env) -> int:
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None:
        raise UserError(f"Task '{task}' has no time limit of its own; give an episode_length.")
    return limit


def _try_one_step(task: Task, spec: Spec) -> None:
    """One random step, with everything that the runs themselves look at."""
    check_reward(task, spec)
    with contextlib.closing(Actor(task, spec, seed=0, purpose=("check", 0))) as actor:
        actor.explore()


def _require_alike(first: str, expected: Spec, other: str, found: Spec) -> None:
    for field in dataclasses.fields(Spec):
        ours, theirs = getattr(expected, field.name), getattr(found, field.name)
        if ours != theirs:
            raise UserError(
                f"All tasks of a suite must be alike, but {field.name} is {ours} in '{first}' "
                f"and {theirs} in '{other}'."
            )
