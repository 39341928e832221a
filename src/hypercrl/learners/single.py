"""Single-task reference: a network of its own for each task, learnt from scratch.

It neither transfers nor forgets, and grows by a network per task. Its returns are the r*_i by
which forward transfer is measured.
"""

from dataclasses import dataclass

from hypercrl.dynamics.separate import Separate
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.registry import learners


@learners.register("single")
@dataclass(frozen=True)
class Single(BaselineLearner):
    """One independent target network per task."""

    @property
    def parts(self):
        return Parts(Separate(self.network))
