"""What a run is worth: transfer, forgetting and model error, from its matrix of returns.

Written r[i, j] is the mean test return on task i after training task j, T is the last task.
The paper's two (its appendix, "Additional Test Results") are

    retention         f_i = r[i, T] / r[i, i]     for i < T
    forward transfer  I_i = r[i, i] / r*_i        for i > 1

with r*_i the return of a model trained on task i alone, from scratch. The others are defined
in their functions. Missing evaluations are NaN in arrays. A ratio whose denominator is
missing, negative or near zero says nothing; it is undefined, and its two returns are kept to
be shown instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from hypercrl.experiment.records import Evaluation
from hypercrl.experiment.run_folder import Run

Matrix = Float[np.ndarray, "T T"]

REFERENCE_METHOD = "single"
"""The method that starts every task from scratch: the normaliser of forward transfer."""

MIN_DENOMINATOR = 0.05
"""A denominator below this share of the task's scale counts as near zero.

A robot that idles through the pusher scores 5, one that has learnt it 310: under 2 %. Dividing
by the former would call any progress a transfer of thousands of per cent.
"""


@dataclass(frozen=True)
class Ratio:
    """A quotient of two returns; `value` is None where it is undefined."""

    numerator: float
    denominator: float
    value: float | None


def ratio(numerator: float, denominator: float, scale: float) -> Ratio:
    """The quotient, defined if both are finite and the denominator is clearly positive."""
    defined = (
        math.isfinite(numerator)
        and math.isfinite(denominator)
        and denominator > 0
        and denominator >= MIN_DENOMINATOR * scale
    )
    return Ratio(numerator, denominator, numerator / denominator if defined else None)


def values(ratios: Sequence[Ratio]) -> Float[np.ndarray, "K"]:
    """The ratios' values, NaN where undefined."""
    return np.array([math.nan if r.value is None else r.value for r in ratios], float)


def mean_of_defined(entries: Float[np.ndarray, "K"]) -> float:
    """The mean over the entries that are not NaN; NaN if there is none."""
    defined = entries[~np.isnan(entries)]
    return float(defined.mean()) if defined.size else math.nan


def returns_matrix(run: Run) -> Matrix:
    """r[i, j]: rows are tasks evaluated, columns the tasks after whose training."""
    return _final_matrix(run, lambda evaluation: evaluation.mean)


def success_matrix(run: Run) -> Matrix:
    """The share of successful test episodes, laid out as `returns_matrix`."""

    def share(evaluation: Evaluation) -> float:
        return float(np.mean(evaluation.successes)) if evaluation.successes else math.nan

    return _final_matrix(run, share)


def error_matrix(run: Run, horizon: str) -> Matrix:
    """Model error on task i after task j, relative to the spread of the task's state changes.

    `horizon` is "one_step" or "h_step". 1 is as bad as predicting that nothing changes.
    """

    def error(evaluation: Evaluation) -> float:
        value = getattr(evaluation, horizon)
        return math.nan if value is None else value

    return _final_matrix(run, error)


def _final_matrix(run: Run, read) -> Matrix:
    matrix = np.full((run.num_tasks, run.num_tasks), math.nan)
    for evaluation in run.evaluations:
        if evaluation.phase == "final":
            matrix[evaluation.task, evaluation.after] = read(evaluation)
    return matrix


def retention(returns: Matrix, scale: Float[np.ndarray, "T"]) -> list[Ratio]:
    """f_i = r[i, T] / r[i, i] for every task but the last."""
    return [ratio(r[-1], r[i], scale[i]) for i, r in enumerate(returns[:-1])]


def forward_transfer(
    returns: Matrix, reference: Float[np.ndarray, "T"], scale: Float[np.ndarray, "T"]
) -> list[Ratio]:
    """I_i = r[i, i] / r*_i for every task but the first."""
    return [ratio(returns[i, i], reference[i], scale[i]) for i in range(1, len(returns))]


def average_performance(returns: Matrix) -> float:
    """A = 1/T Σ_i r[i, T]; NaN until the last task has been evaluated on all."""
    return float(returns[:, -1].mean())


def forgetting(returns: Matrix) -> Float[np.ndarray, "T-1"]:
    """F_i = max_{i ≤ j < T} r[i, j] − r[i, T] (Chaudhry et al. 2018); negative is a gain."""
    best = [_nan_max(row[i:-1]) for i, row in enumerate(returns[:-1])]
    return np.array(best) - returns[:-1, -1]


def backward_transfer(returns: Matrix) -> Float[np.ndarray, "T-1"]:
    """B_i = r[i, T] − r[i, i] (Lopez-Paz and Ranzato 2017)."""
    return returns[:-1, -1] - np.diagonal(returns)[:-1]


def zero_shot(run: Run) -> Float[np.ndarray, "T-1"]:
    """Z_i = r[i, i−1]: the return on task i > 1 before any training on it."""
    scores = np.full(run.num_tasks, math.nan)
    for evaluation in run.evaluations:
        if evaluation.phase == "zero_shot":
            scores[evaluation.task] = evaluation.mean
    return scores[1:]


def worst_case(run: Run, scale: Float[np.ndarray, "T"]) -> list[Ratio]:
    """W_i = min r_i over every evaluation after task i ended / r[i, i], for i < T.

    Evaluations in the middle of later tasks count, so that a dip that has healed by the next
    task switch still shows: the stability gap (De Lange et al. 2023).
    """
    returns = returns_matrix(run)
    lowest = np.full(run.num_tasks, math.nan)
    for evaluation in run.evaluations:
        if evaluation.after > evaluation.task:
            lowest[evaluation.task] = np.fmin(lowest[evaluation.task], evaluation.mean)
    return [ratio(lowest[i], returns[i, i], scale[i]) for i in range(run.num_tasks - 1)]


def learning_curve(run: Run, task: int) -> tuple[list[int], list[float]]:
    """Steps within a task and the return on it: evaluations, or episodes where there are none."""
    own = [e for e in run.evaluations if e.task == task]
    points = {e.step: e.mean for e in own if e.after == task}
    if len(points) < 2:
        points = {e.step: e.total for e in run.episodes if e.task == task and not e.random}
    elif before := [e.mean for e in own if e.phase == "zero_shot"]:
        points[0] = before[-1]
    steps = sorted(points)
    return steps, [points[step] for step in steps]


def learning_area(
    run: Run, reference: Float[np.ndarray, "T"], scale: Float[np.ndarray, "T"]
) -> list[Ratio]:
    """The mean height of a task's learning curve against r*_i.

        U_i = 1/(s_n − s_0) ∫ r_i(s) ds / r*_i

    by the trapezium rule over the steps s of task i itself. 1 would be a method that performs
    from its first step as the reference does at its end.
    """
    heights = []
    for task in range(run.num_tasks):
        steps, points = learning_curve(run, task)
        enough = len(steps) > 1
        area = np.trapezoid(points, steps) / (steps[-1] - steps[0]) if enough else math.nan
        heights.append(float(area))
    return [ratio(heights[i], reference[i], scale[i]) for i in range(run.num_tasks)]


def task_scales(runs: Sequence[Run]) -> Float[np.ndarray, "T"]:
    """Per task the largest |r[i, j]| that any of the runs reached; 0 where nothing is known."""
    largest = [np.fmax.reduce(np.abs(returns_matrix(run)), axis=1) for run in runs]
    return np.nan_to_num(np.fmax.reduce(largest, axis=0))


def reference_returns(runs: Sequence[Run], num_tasks: int) -> Float[np.ndarray, "T"]:
    """r*_i: the mean of r[i, i] over the reference method's seeds; NaN without any."""
    own = [np.diagonal(returns_matrix(r)) for r in runs if r.method == REFERENCE_METHOD]
    if not own:
        return np.full(num_tasks, math.nan)
    return np.array([mean_of_defined(column) for column in np.stack(own).T])


def seconds_per_session(run: Run) -> Float[np.ndarray, "T"]:
    """The median over a task's sessions, as the first one of a run also pays for compilation."""
    times = [[s.seconds for s in run.session_times if s.task == t] for t in range(run.num_tasks)]
    return np.array([np.median(seconds) if seconds else math.nan for seconds in times])


def bytes_kept(run: Run) -> Float[np.ndarray, "T"]:
    """What is kept for finished tasks after each task: per-task state and old transitions."""
    kept = np.full(run.num_tasks, math.nan)
    for cost in run.costs:
        kept[cost.task] = cost.bytes_per_task * (cost.task + 1) + cost.memory_bytes
    return kept


def _nan_max(row: Float[np.ndarray, "K"]) -> float:
    return float(np.fmax.reduce(row))
