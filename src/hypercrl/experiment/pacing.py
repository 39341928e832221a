"""How thoroughly to plan within a time budget: fewer rounds rather than an action that is late."""

import collections
import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hypercrl.errors import UserError
from hypercrl.types import Planner

ROUNDS = "num_iterations"  # of planners that refine their plan round by round
REMEMBERED = 50  # plans whose times are remembered
USUAL = 0.9  # the share of them that a plan is expected to be as quick as; the rest are hiccups
SAFETY = 1.1  # and how much longer it may take


class Pacing:
    """A planner in as many variants as it has rounds, and the one that the budget allows.

    What a round takes is measured all the time, so that it follows a processor that gets slower
    or quicker. A planner without rounds, and one without a budget, has one variant.
    """

    def __init__(self, planner: Planner, budget: float | None):
        if budget is not None and not budget > 0:
            raise UserError(f"The time budget must be more than 0 s and not {budget} s.")
        self.budget = budget
        rounds = getattr(planner, ROUNDS, None) if budget is not None else None
        self._variants: list[Planner] = [
            dataclasses.replace(planner, **{ROUNDS: count + 1}) for count in range(rounds or 0)
        ] or [planner]
        self._seconds_a_round: collections.deque[float] = collections.deque(maxlen=REMEMBERED)

    @property
    def variants(self) -> tuple[Planner, ...]:
        """From the quickest to the most thorough one."""
        return tuple(self._variants)

    def choose(self) -> Planner:
        """The most thorough variant that has time enough."""
        if self.budget is None or not self._seconds_a_round:
            return self._variants[-1]
        slow = np.quantile(list(self._seconds_a_round), USUAL, method="higher")
        rounds = int(self.budget / (SAFETY * slow))
        return self._variants[min(max(rounds, 1), len(self._variants)) - 1]

    @contextmanager
    def measured(self, planner: Planner, info: dict[str, Any]) -> Iterator[None]:
        """Learn from how long a plan takes, and say it in `info`."""
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        rounds = self._variants.index(planner) + 1
        self._seconds_a_round.append(seconds / rounds)
        info["seconds"] = seconds
        info["late"] = self.budget is not None and seconds > self.budget
        if hasattr(planner, ROUNDS):
            info["rounds"] = getattr(planner, ROUNDS)

    def forget(self) -> None:
        """Leave out what was measured so far, as it included compilation."""
        self._seconds_a_round.clear()
