"""Elastic weight consolidation (Kirkpatrick et al. 2017) on the multi-head network's trunk.

The springs, their equation and what they keep are in `learning/ewc.py`.
"""

from dataclasses import dataclass

from hypercrl.checks import at_least
from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.learning.ewc import Springs
from hypercrl.registry import learners


@learners.register("ewc")
@dataclass(frozen=True)
class EWC(BaselineLearner):
    """The baseline with a quadratic spring to every old task's trunk."""

    strength: float = 10_000.0
    """λ, the paper's."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 0, "strength")

    @property
    def parts(self):
        springs = Springs(self.strength, self.training.batch_size)
        return Parts(MultiHead(self.network), protection=springs)
