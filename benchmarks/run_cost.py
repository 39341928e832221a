"""What a table of runs will cost, from the measured time of a plan, a control step and an update.

A run of T tasks plans N actions, among them those of the test episodes, makes N control steps
and those of the random episodes, and U updates:

    core-hours = (N · plan + (N + random) · step + U · update) / 3600

The three times are processor time of one core, measured here for each method at the middle task,
where its memory or its regulariser has half of the old tasks to deal with. What compiles, and
what is saved, is not counted. A value behind the horizon is learnt once a session.

    python benchmarks/run_cost.py --suite door --preset paper --seeds 4

With a sweep file its settings are compared, each with as many tasks as asked for:

    python benchmarks/run_cost.py --sweep results/economy/before_after.yaml
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from hypercrl.data.buffer import Buffer
from hypercrl.data.memory import TaskMemory
from hypercrl.experiment.config import RunConfig, resolve
from hypercrl.experiment.values import Values
from hypercrl.sweep.plan import plan_runs, read_selections
from hypercrl.types import Suite

METHODS = ("hypercrl", "multitask", "coreset", "si", "ewc", "finetune", "single")
EPISODES = 2  # of random actions behind the data that are learnt from
UPDATES = 10  # in one timed session


class Times(NamedTuple):
    """Seconds."""

    plan: float
    step: float
    update: float
    critic: float  # a session


def main(
    suite: str = "door",
    preset: str = "paper",
    methods: tuple[str, ...] = METHODS,
    seeds: int = 4,
    repeats: int = 5,
    sweep: Path | None = None,
    tasks: int = 5,
) -> None:
    """Measure and extrapolate.

    Args:
        suite: Suite of the table.
        preset: Its settings.
        methods: The table's rows.
        seeds: Runs of each method.
        repeats: Turns that the medians are taken over.
        sweep: A sweep file whose settings are compared instead.
        tasks: How many tasks a run of the sweep file shall have.
    """
    if sweep is not None:
        compare(sweep, tasks, repeats)
        return
    print(f"{'method':12}{'plan ms':>9}{'step ms':>9}{'update ms':>11}{'core-hours a run':>18}")
    hours = 0.0
    for method in methods:
        config = resolve(suite, method, preset=preset)
        times = measure(config, repeats)
        run = cost(config, times) / 3_600
        hours += seeds * run
        shown = (f"{1e3 * seconds:9.1f}" for seconds in times[:2])
        print(f"{method:12}{''.join(shown)}{1e3 * times.update:11.1f}{run:18.1f}")
    print(f"{len(methods)} methods × {seeds} seeds: {hours:,.0f} core-hours")


def compare(sweep: Path, num_tasks: int, repeats: int) -> None:
    """Minutes of one core for each setting, and its ratio to the first of the same suite."""
    settings: dict[tuple[str, str, str], RunConfig] = {}
    for run in plan_runs(read_selections(sweep, {})):
        config = replace(run.config, num_tasks=num_tasks)
        settings.setdefault((config.suite, config.method, config.name), config)
    first: dict[tuple[str, str], float] = {}
    print(f"{'suite':14}{'method':10}{'settings':10}{'plan ms':>9}{'minutes':>9}{'ratio':>7}")
    for (suite, method, name), config in settings.items():
        times = measure(config, repeats)
        minutes = cost(config, times) / 60
        ratio = minutes / first.setdefault((suite, method), minutes)
        shown = f"{1e3 * times.plan:9.1f}{minutes:9.1f}{ratio:7.2f}"
        print(f"{suite:14}{method:10}{name:10}{shown}", flush=True)


def measure(config: RunConfig, repeats: int) -> Times:
    suite = config.build_suite()
    key = jax.random.key(0)
    buffer, step = collect(suite)
    memory = TaskMemory(suite.spec, config.num_tasks, buffer.capacity, config.learner.memory_share)
    learner, data = config.learner, buffer.transitions()
    state = learner.init(suite.spec, config.num_tasks, key=key)
    middle = config.num_tasks // 2
    for task in range(middle + 1):
        state = learner.start_task(state, task, key=key)
        state, _ = learner.update(state, data, memory.view(), num_updates=UPDATES, key=key)
        if task < middle:
            state = learner.end_task(state, data, key=key)
            memory.keep(task, buffer.get_state(), np.random.default_rng(0))
    kept = memory.view()
    update = median_time(
        lambda: learner.update(state, data, kept, num_updates=UPDATES, key=key), repeats
    )
    model, reward = learner.predict(state, middle), suite.tasks[middle].reward
    plan_state = config.planner.init(suite.spec)
    observation = jnp.asarray(data.states[0])
    values = Values(config.critic, suite.spec)
    values.start_task(key=key)

    def learn_value():
        values.update(data, reward, key=key)
        return values.get_state()

    critic = median_time(learn_value, repeats)
    value = values.of(middle)
    plan = median_time(
        lambda: config.planner.plan(plan_state, model, reward, observation, key=key, value=value),
        repeats,
    )
    return Times(plan, step, update / UPDATES, critic)


def collect(suite: Suite) -> tuple[Buffer, float]:
    """Random episodes of the first task, and the median time of a control step."""
    env = suite.tasks[0].make(None)
    env.action_space.seed(0)
    buffer = Buffer(suite.spec, EPISODES * suite.spec.episode_length)
    seconds = []
    for episode in range(EPISODES):
        state, _ = env.reset(seed=episode)
        for _ in range(suite.spec.episode_length):
            action = env.action_space.sample()
            start = time.process_time()
            following = env.step(action)[0]
            seconds.append(time.process_time() - start)
            buffer.add(state, action, following)
            state = following
    env.close()
    return buffer, statistics.median(seconds)


def median_time(act: Callable[[], object], repeats: int) -> float:
    """Seconds of a call, once everything is compiled."""
    jax.block_until_ready(jax.tree.leaves(act()))
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(jax.tree.leaves(act()))
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def cost(config: RunConfig, times: Times) -> float:
    """Seconds of one core for a whole run."""
    schedule, tasks = config.schedule, config.num_tasks
    length = config.build_suite().spec.episode_length
    in_between = (tasks - 1) * (tasks - 2) // 2 if tasks > 1 else 0
    reported = tasks * (tasks + 1) // 2 - in_between
    tests = reported * schedule.eval_episodes
    tests += in_between * (schedule.retest_episodes or schedule.eval_episodes)
    if schedule.zero_shot:
        tests += (tasks - 1) * schedule.curve_episodes
    if schedule.eval_every:
        during = schedule.steps_per_task // schedule.eval_every - 1
        tests += tasks * (tasks + 1) // 2 * during * schedule.curve_episodes
    planned = tasks * schedule.steps_per_task + tests * length
    random = tasks * schedule.random_episodes * length
    sessions = tasks * (schedule.steps_per_task // schedule.update_every + 1)
    return (
        planned * times.plan
        + (planned + random) * times.step
        + sessions * (schedule.updates * times.update + times.critic)
    )


if __name__ == "__main__":
    tyro.cli(main)
