"""Synaptic intelligence (Zenke et al. 2017) on the multi-head network's trunk.

The path integral and the spring that it makes are in `learning/si.py`.
"""

from dataclasses import dataclass

from hypercrl.checks import above, at_least
from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.learning.si import PathIntegral
from hypercrl.registry import learners


@learners.register("si")
@dataclass(frozen=True)
class SI(BaselineLearner):
    """The baseline with one spring, whose stiffness grows from task to task."""

    strength: float = 0.1
    """c, the paper's."""
    damping: float = 1e-3
    """ξ: bounds the importance of weights that hardly moved."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 0, "strength")
        above(self, 0, "damping")

    @property
    def parts(self):
        path = PathIntegral(self.strength, self.damping)
        return Parts(MultiHead(self.network), protection=path)
