"""Fine-tuning: each task continues from the last one's weights, with nothing to protect them."""

from dataclasses import dataclass

from hypercrl.learners.baseline import BaselineLearner
from hypercrl.registry import learners


@learners.register("finetune")
@dataclass(frozen=True)
class FineTune(BaselineLearner):
    """The baseline without any hook: what forgetting looks like."""
