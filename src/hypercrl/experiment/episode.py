"""One episode: its steps, and the loop that all episodes go through."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Step(NamedTuple):
    """One transition and whether it closed an episode."""

    state: Float[np.ndarray, "S"]
    action: Float[np.ndarray, "A"]
    next_state: Float[np.ndarray, "S"]
    reward: float
    done: bool
    episode: int  # its number, from 1
    episode_return: float  # so far


@dataclass(frozen=True)
class Trajectory:
    """One whole episode."""

    actions: Float[np.ndarray, "L A"]
    states: Float[np.ndarray, "L+1 S"]
    total: float
    """The episode's return."""


def run_episode(step: Callable[[], Step]) -> Trajectory:
    """One episode, which `step` (such as `actor.explore`) takes further until it is over."""
    steps = [step()]
    while not steps[-1].done:
        steps.append(step())
    actions = np.stack([one.action for one in steps])
    states = np.stack([*(one.state for one in steps), steps[-1].next_state])
    return Trajectory(actions, states, steps[-1].episode_return)
