"""Coreset: a share of each finished task's transitions stays and is rehearsed.

    L = L_dyn(batch of task t) + L_dyn(batch from the union of all coresets)

Huang et al. (2021), section V-D: the sample is random, one transition in a hundred, and each
update adds one batch of it, whatever the number of tasks. Every old transition goes through the
head of its own task.
"""

from dataclasses import dataclass

from hypercrl.checks import above, between
from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.learning.rehearsal import UnionBatch
from hypercrl.registry import learners


@learners.register("coreset")
@dataclass(frozen=True)
class Coreset(BaselineLearner):
    """The baseline that rehearses a part of the past."""

    memory_share: float = 0.01
    """Share of each finished task's transitions that is kept; 0.01 is the paper's."""

    def __post_init__(self):
        super().__post_init__()
        above(self, 0, "memory_share")
        between(self, 0, 1, "memory_share")

    @property
    def parts(self):
        rehearsal = UnionBatch(self.training.batch_size)
        return Parts(MultiHead(self.network), rehearsal=rehearsal)
