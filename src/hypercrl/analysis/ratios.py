"""The two ratios by which methods are compared, as figures and tables both read them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypercrl.analysis import metrics, paper
from hypercrl.analysis.comparison import Scores

Ratios = Callable[[Scores], Sequence[metrics.Ratio]]


@dataclass(frozen=True)
class RatioMetric:
    """One value for every task but one: the last cannot be forgotten, the first not be helped."""

    name: str
    read: Ratios
    first_task: int
    published: dict[str, dict[str, paper.Row]]
    """The paper's rows, by suite and method."""


RETENTION = RatioMetric("retention", lambda scores: scores.retention, 1, paper.RETENTION)
FORWARD_TRANSFER = RatioMetric(
    "forward-transfer", lambda scores: scores.forward_transfer, 2, paper.FORWARD_TRANSFER
)
