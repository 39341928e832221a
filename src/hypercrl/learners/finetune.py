"""Fine-tuning: each task continues from the last one's weights, with nothing to protect them."""

from dataclasses import dataclass

from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.registry import learners


@learners.register("finetune")
@dataclass(frozen=True)
class FineTune(BaselineLearner):
    """The multi-head network and nothing else: what forgetting looks like."""

    @property
    def parts(self):
        return Parts(MultiHead(self.network))
