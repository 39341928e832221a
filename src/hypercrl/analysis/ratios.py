"""The ratios by which methods are compared, as figures and tables both read them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hypercrl.analysis import metrics, paper

Ratios = Callable[[metrics.Scores], Sequence[metrics.Ratio]]


@dataclass(frozen=True)
class RatioMetric:
    """A value a task; the last task cannot be forgotten, the first not be helped."""

    name: str  # of its files
    title: str
    reading: str
    brief: str
    read: Ratios
    first_task: int = 1
    plain: Ratios | None = None
    """The same of returns counted from 0, as the paper has it."""
    formula: str = ""
    """Of the plain ratio."""
    published: Mapping[str, Mapping[str, paper.Row]] = field(default_factory=dict)
    """The paper's rows, by suite and method."""


NORMALISED = RatioMetric(
    "normalised",
    "Normalised return at the end",
    "The return on a task after all training, where 0 is what random actions earn and 100 what a "
    "model reaches that learns this task alone.",
    "Gain over random actions at the end, relative to that of a model that learns the task alone.",
    lambda scores: scores.normalised,
)
RETENTION = RatioMetric(
    "retention",
    "Retention of old tasks",
    "What is left at the end of the gain over random actions that a task had when it was just "
    "learnt. 100 is nothing forgotten; above, later tasks have helped. A task that was never "
    "learnt is left out, so read it with the number of tasks learnt.",
    "What is left at the end of a learnt task's gain over random actions. The plain ratio counts "
    "from 0, as the paper does.",
    lambda scores: scores.retention,
    1,
    lambda scores: scores.plain_retention,
    "r[i, T] / r[i, i]",
    paper.RETENTION,
)
FORWARD_TRANSFER = RatioMetric(
    "forward-transfer",
    "Forward transfer to new tasks",
    "The gain over random actions on a task when just learnt, over that of a model trained on "
    "this task alone, from scratch. Above 100, what was learnt before has helped.",
    "Gain over random actions when just learnt, relative to that of a model that learns the task "
    "alone. The plain ratio counts from 0, as the paper does.",
    lambda scores: scores.forward_transfer,
    2,
    lambda scores: scores.plain_transfer,
    "r[i, i] / r*",
    paper.FORWARD_TRANSFER,
)
RATIOS = (NORMALISED, RETENTION, FORWARD_TRANSFER)
