"""What a run's plans promise, and what comes of them: does the planner live on the model's errors?

    python tools/promises.py RUN… [--episodes 10]

RUN is a run's folder, or a suite that comes with a trained controller. Every plan of a test episode
promises a return over the planner's horizon. Printed for each task is the mean of these promises,
and of what was earned in as many steps from the same moments on. A planner that searches a model
for what pays finds its errors first, and promises that are never kept can hold it where it is.
"""

import argparse
import contextlib
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hypercrl.experiment import streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import Controller, load


class Plans(NamedTuple):
    """Of one or more episodes, a number for every plan that had time to come true."""

    promised: Float[np.ndarray, "N"]
    kept: Float[np.ndarray, "N"]


def watch(controller: Controller, task: int, num_episodes: int) -> Plans:
    """Test episodes of one task, from the starts of the run's own tests."""
    config, model = controller.config, controller.model(task)
    planner, one = config.planner, controller.suite.tasks[task]
    purpose = ("test", task, task + 1, 0)
    actor = Actor(one, controller.suite.spec, planner, seed=config.seed, purpose=purpose)
    episodes = []
    with contextlib.closing(actor):
        for episode in range(num_episodes):
            promised, earned, state = [], [], planner.init(controller.suite.spec)
            while not (earned and actor.at_boundary):
                key = streams.key(config.seed, "promises", task, episode, len(earned))
                observation = jnp.asarray(actor.begin())
                plan = planner.plan(state, model, one.reward, observation, key=key)
                state = plan.state
                promised.append(float(plan.info["expected_return"]))
                earned.append(actor.execute(np.asarray(plan.action)).reward)
            episodes.append(_compare(np.array(promised), np.array(earned), planner.horizon))
    return Plans(*(np.concatenate(part) for part in zip(*episodes, strict=True)))


def _compare(promised: np.ndarray, earned: np.ndarray, horizon: int) -> Plans:
    """The plans of one episode but for those that its end cuts short."""
    whole = np.arange(len(earned) - horizon + 1)
    return Plans(promised[whole], np.array([earned[t : t + horizon].sum() for t in whole]))


def mean(numbers: np.ndarray) -> str:
    return f"{numbers.mean():.1f}" if numbers.size else "–"  # episodes as short as the horizon


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=10, help="of every task")
    options = parser.parse_args()
    print("| run | task | promised | kept |")
    print("|---|---|---:|---:|")
    for folder in options.runs:
        controller = load(folder)
        for task in range(controller.num_learnt):
            plans = watch(controller, task, options.episodes)
            name = controller.suite.tasks[task].name
            promised, kept = (mean(numbers) for numbers in plans)
            print(f"| {folder.name} | {name} | {promised} | {kept} |", flush=True)


if __name__ == "__main__":
    main()
