"""Progressive neural networks (Rusu et al. 2016): a column per task, the earlier ones frozen.

The network is in `dynamics/progressive.py`. Nothing is forgotten because nothing old is ever
trained; what earlier tasks learnt reaches a new column through its adapters. The price is a
model that grows with every task, in memory and in the time of an update and of a plan.
"""

from dataclasses import dataclass

from hypercrl.checks import at_least
from hypercrl.dynamics.progressive import Columns
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.registry import learners


@learners.register("pnn")
@dataclass(frozen=True)
class PNN(BaselineLearner):
    """Grows by a target network and its adapters per task."""

    adapter: int = 16
    """Numbers to which an adapter reduces the activations of all earlier columns."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 1, "adapter")

    @property
    def parts(self):
        return Parts(Columns(self.network, self.adapter))
