"""Plan with the simulator itself as the model: can reward and horizon lead to the goal at all?

    python tools/plan_with_simulator.py door --steps 80

For every task of a suite, iCEM (Pinneri et al. 2020) with a small budget imagines its action
sequences in a second copy of the environment, put back to the present state before each of them.
What it cannot do with a perfect model, no learnt one will do. Prints one row a task and stops an
episode as soon as the suite calls it a success.

    python tools/plan_with_simulator.py half_cheetah --model 4

imagines in the simulator of task 4 whatever the task: how much do tasks conflict for a planner
that knows the wrong one perfectly? The one-step error is then the difference of the simulators.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.experiment.testing import relative_error
from hypercrl.planning.noise import coloured_basis
from hypercrl.registry import suites
from hypercrl.types import Spec, Suite


@dataclass(frozen=True)
class Budget:
    """How much may be imagined for one action."""

    horizon: int = 10
    num_samples: int = 48
    num_rounds: int = 2
    num_elites: int = 8
    num_kept: int = 3
    noise_beta: float = 2.5
    init_std: float = 1.0


class SimulatorPlanner:
    """iCEM in a copy of the environment."""

    def __init__(self, env, spec: Spec, reward, budget: Budget, seed: int):
        self._env, self._budget = env, budget
        self._low, self._high = np.array(spec.action_low), np.array(spec.action_high)
        self._basis = coloured_basis(budget.horizon, budget.noise_beta)
        self._rng = np.random.default_rng(seed)
        self._mean = np.zeros((budget.horizon, spec.action_dim)) + (self._low + self._high) / 2
        self._kept = np.zeros((0, *self._mean.shape))
        self._rewards = jax.jit(jax.vmap(jax.vmap(reward)))
        env.reset(seed=0)

    def act(self, present: dict[str, np.ndarray]) -> np.ndarray:
        """The first action of the best sequence found."""
        budget = self._budget
        std = np.full_like(self._mean, budget.init_std) * (self._high - self._low) / 2
        for _ in range(budget.num_rounds):
            white = self._rng.standard_normal((budget.num_samples, *self._mean.shape))
            plans = self._mean + std * np.einsum("tu,nua->nta", self._basis, white)
            plans[0] = self._mean
            plans = np.clip(np.concatenate([plans, self._kept]), self._low, self._high)
            best = np.argsort(-self._imagine(present, plans))[: budget.num_elites]
            self._mean, std = plans[best].mean(0), plans[best].std(0)
            self._kept = plans[best[: budget.num_kept]]
        action = self._kept[0, 0]
        self._mean = np.concatenate([self._mean[1:], self._mean[-1:]])
        self._kept = np.concatenate([self._kept[:, 1:], self._kept[:, -1:]], axis=1)
        return action

    def foresee(self, present: dict[str, np.ndarray], action: np.ndarray) -> np.ndarray:
        """The state that follows an action."""
        return self._follow(present, action[None])[-1]

    def _imagine(self, present, plans) -> np.ndarray:
        """The return of every plan."""
        states = np.array([self._follow(present, plan) for plan in plans], np.float32)
        actions = plans.astype(np.float32)
        return np.asarray(self._rewards(states[:, :-1], actions, states[:, 1:])).sum(1)

    def _follow(self, present, plan) -> list[np.ndarray]:
        self._env.set_state(present)
        states = [self._env.observe()]
        for action in plan:
            self._env.advance(action)
            states.append(self._env.observe())
        return states


@dataclass(frozen=True)
class Episode:
    """What happened, and what the planner had expected of each step."""

    states: np.ndarray  # [L + 1, S]
    expected: np.ndarray  # [L, S]
    total: float


def play(
    suite: Suite, task: int, num_steps: int, budget: Budget, seed: int = 0, model: int | None = None
) -> Episode:
    """One episode, which ends early with success.

    The planner imagines in the simulator of the task `model`, or else in the task's own.
    """
    imagined = suite.tasks[task if model is None else model]
    env: Any = suite.tasks[task].make(None)
    planner = SimulatorPlanner(imagined.make(None), suite.spec, imagined.reward, budget, seed)
    states, expected, total = [env.reset(seed=seed)[0]], [], 0.0
    for _ in range(num_steps):
        present = env.get_state()
        action = planner.act(present)
        expected.append(planner.foresee(present, action))
        state, reward, *_ = env.step(action)
        states.append(state)
        total += reward
        if suite.success is not None and suite.success(np.array(states)):
            break
    return Episode(np.array(states), np.array(expected, np.float32), total)


def main() -> None:
    parser = argparse.ArgumentParser(description="Plan with the simulator itself as the model.")
    parser.add_argument("suite", choices=suites.names())
    parser.add_argument("--tasks", type=int, nargs="*", help="which tasks; all unless told")
    parser.add_argument("--model", type=int, help="imagine in this task; in the own unless told")
    parser.add_argument("--steps", type=int, default=80, help="control steps at most")
    parser.add_argument("--samples", type=int, default=Budget.num_samples)
    parser.add_argument("--rounds", type=int, default=Budget.num_rounds)
    parser.add_argument("--horizon", type=int, default=Budget.horizon)
    parser.add_argument("--beta", type=float, default=Budget.noise_beta, help="colour of noise")
    parser.add_argument("--std", type=float, default=Budget.init_std)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    suite = suites.get(flags.suite)()
    last = len(suite.tasks) - 1
    if not all(0 <= task <= last for task in (*(flags.tasks or ()), flags.model or 0)):
        parser.error(f"The suite '{flags.suite}' has the tasks 0 to {last}.")
    budget = Budget(
        flags.horizon, flags.samples, flags.rounds, noise_beta=flags.beta, init_std=flags.std
    )
    columns = ("task", "steps", "success", "return", *suite.measures, "one-step error")
    print("|", " | ".join(columns), "|")
    print("|---" * len(columns) + "|")
    for task in range(len(suite.tasks)) if flags.tasks is None else flags.tasks:
        episode = play(suite, task, flags.steps, budget, flags.seed, flags.model)
        states = episode.states
        success = suite.success is not None and suite.success(states)
        steps = (jnp.asarray(x) for x in (states[:-1], episode.expected, states[1:]))
        error = relative_error(suite.spec, *steps)
        measures = (f"{measure(states):.3g}" for measure in suite.measures.values())
        told = "yes" if success else "no"
        row = (suite.tasks[task].name, len(states) - 1, told, f"{episode.total:.0f}", *measures)
        print("|", " | ".join(map(str, row)), f"| {error:.2f} |", flush=True)


if __name__ == "__main__":
    main()
