"""Multi-task oracle: all transitions of all tasks stay, and every update revisits every task.

    L = L_dyn(batch of task t) + Σ_{i<t} L_dyn(batch of task i)

Huang et al. (2021), section V-D. An update costs as many batches as there are tasks so far.
"""

from dataclasses import dataclass
from typing import ClassVar

from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.learning.rehearsal import EveryTask
from hypercrl.registry import learners


@learners.register("multitask")
@dataclass(frozen=True)
class MultiTask(BaselineLearner):
    """The baseline trained on everything ever seen: what could be had without forgetting."""

    memory_share: ClassVar[float] = 1.0

    @property
    def parts(self):
        rehearsal = EveryTask(self.training.batch_size)
        return Parts(MultiHead(self.network), rehearsal=rehearsal)
