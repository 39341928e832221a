"""How long training episodes go on, decided by what they earn.

In the first half of a task an episode is one stretch of `episode_steps`. From then on an episode
goes on as long as its last stretch earned no less than those did on average. What runs well runs
on; what has fallen is not watched lying there, which would fill the task's data with it.
"""

from typing import Any

import numpy as np

from hypercrl.experiment import checkpoint
from hypercrl.experiment.episode import Step


class Stretches:
    """What the stretches of the task under way have earned."""

    def __init__(self, length: int):
        """With stretches of no length every episode goes on."""
        self.length = length
        self.begin_task()

    def begin_task(self) -> None:
        self._total = 0.0  # of the first half's stretches
        self._count = 0
        self._before = 0.0  # what the episode under way had earned when its stretch began

    def goes_on(self, step: Step, number: int, *, first_half: bool) -> bool:
        """Whether an episode may go on after this step, its `number`-th."""
        if self.length == 0 or (number % self.length and not step.done):
            return True
        earned = step.episode_return - self._before
        pays = earned * self._count >= self._total
        if first_half:
            self._total += earned
            self._count += 1
        goes_on = not step.done and (first_half or pays)
        self._before = step.episode_return if goes_on else 0.0
        return goes_on

    def get_state(self) -> dict[str, Any]:
        numbers = {"total": self._total, "count": self._count, "before": self._before}
        return {name: np.array(number) for name, number in numbers.items()}

    def set_state(self, arrays: checkpoint.Arrays) -> None:
        """Checkpoints that are older than this rule say nothing of it."""
        if arrays:
            self._total = float(arrays["total"])
            self._count = int(arrays["count"])
            self._before = float(arrays["before"])
