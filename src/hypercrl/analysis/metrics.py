"""What a run is worth: learning, keeping and transfer, from its matrix of returns.

Written r[i, j] is the mean test return on task i after training task j, T is the last task.
Returns are measured from what random actions earn on the task, and against r*_i, the return of
a model trained on task i alone, from scratch:

    normalised return  n[i, j] = (r[i, j] − random_i) / (r*_i − random_i)
    retention          f_i = (r[i, T] − random_i) / (r[i, i] − random_i)    for i < T
    forward transfer   I_i = n[i, i]                                        for i > 1

The paper (its appendix, "Additional Test Results") divides the plain returns, r[i, T] / r[i, i]
and r[i, i] / r*_i; these stand beside its numbers. The others are defined in their functions.
Missing evaluations are NaN in arrays; a run may test its older tasks only at times, and then the
best, the worst and the last return of a task are those of the tests that there are. A ratio whose
denominator is missing, negative or near zero says nothing; it is undefined, and its two returns
are kept to be shown instead.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from hypercrl.experiment.records import Cost, Evaluation
from hypercrl.experiment.run_folder import Run

Matrix = Float[np.ndarray, "T T"]
Curve = dict[int, float]  # step within a task: return

MIN_DENOMINATOR = 0.05
"""A denominator below this share of the task's scale counts as near zero.

A robot that idles through the pusher scores 5, one that has learnt it 310: under 2 %. Dividing
by the former would call any progress a transfer of thousands of per cent.
"""

LEARNT = 0.5
"""A task counts as learnt from this normalised return on, when training on it has just ended."""

CLEARLY_ABOVE = 1.0
"""Without a reference: so many standard deviations of an episode above random actions."""


@dataclass(frozen=True)
class Ratio:
    """A quotient of two returns; `value` is None where it is undefined."""

    numerator: float
    denominator: float
    value: float | None
    reason: str = ""  # why it is undefined, where more can be said than its returns say

    def refuse(self, reason: str) -> "Ratio":
        return Ratio(self.numerator, self.denominator, None, reason)


@dataclass(frozen=True)
class Yardstick:
    """What returns are measured with, a number a task; NaN where it is not known."""

    random: Float[np.ndarray, "T"]
    """Mean return of random actions."""
    random_spread: Float[np.ndarray, "T"]
    """Standard deviation over episodes of random actions."""
    single: Float[np.ndarray, "T"]
    """r*_i, from `runs`."""
    scale: Float[np.ndarray, "T"]
    """Largest gain over `origin` that any of the compared runs reached."""
    plain_scale: Float[np.ndarray, "T"]
    """The same from 0."""
    runs: tuple[Run, ...] = ()
    """The runs that learnt each task alone, with matching settings."""

    @property
    def origin(self) -> Float[np.ndarray, "T"]:
        """Where gains are counted from: random actions, or 0 where their return is unknown."""
        return np.nan_to_num(self.random)

    @property
    def plain(self) -> "Yardstick":
        """The paper's, which counts from 0 whatever random actions earn."""
        return replace(self, random=np.full_like(self.random, math.nan), scale=self.plain_scale)

    def ratio(self, task: int, numerator: float, denominator: float) -> Ratio:
        """A quotient of gains; defined if both are known and the lower is clearly positive."""
        top, bottom = numerator - self.origin[task], denominator - self.origin[task]
        least = max(MIN_DENOMINATOR * self.scale[task], math.ulp(0.0))
        defined = math.isfinite(top) and bottom >= least  # never true of a NaN
        return Ratio(numerator, denominator, float(top / bottom) if defined else None)


@dataclass(frozen=True)
class Scores:
    """All metrics of one run."""

    returns: Matrix
    successes: Matrix
    one_step: Matrix
    h_step: Matrix
    learnt: Float[np.ndarray, "T"]  # 1, 0, or NaN where it cannot be told
    normalised: tuple[Ratio, ...]  # at the end, all tasks
    retention: tuple[Ratio, ...]  # tasks 1 … T−1
    plain_retention: tuple[Ratio, ...]
    forward_transfer: tuple[Ratio, ...]  # tasks 2 … T
    plain_transfer: tuple[Ratio, ...]
    curve_transfer: Float[np.ndarray, "T"]
    worst_case: tuple[Ratio, ...]  # tasks 1 … T−1
    zero_shot: Float[np.ndarray, "T-1"]
    seconds_per_session: Float[np.ndarray, "T"]
    bytes_kept: Float[np.ndarray, "T"]
    peak_bytes: Float[np.ndarray, "T"]

    @property
    def average_performance(self) -> float:
        """A = 1/T Σ_i r[i, T]; NaN until the last task has been evaluated on all."""
        return float(self.returns[:, -1].mean())

    @property
    def normalised_performance(self) -> float:
        """The mean of n[i, T] over the tasks; NaN as long as a return at the end is missing."""
        mean = mean_of_defined(values(self.normalised))
        return mean if math.isfinite(self.average_performance) else math.nan

    @property
    def mean_retention(self) -> float:
        return mean_of_defined(values(self.retention))

    @property
    def mean_transfer(self) -> float:
        return mean_of_defined(values(self.forward_transfer))


def score(run: Run, yard: Yardstick) -> Scores:
    """Every metric of one run."""
    returns = returns_matrix(run)
    learnt = find_learnt(run, yard)
    return Scores(
        returns=returns,
        successes=_final_matrix(run, _success_share),
        one_step=_final_matrix(run, lambda evaluation: evaluation.one_step),
        h_step=_final_matrix(run, lambda evaluation: evaluation.h_step),
        learnt=learnt,
        normalised=normalise(returns[:, -1], yard),
        retention=retention(returns, learnt, yard),
        plain_retention=retention(returns, learnt, yard.plain),
        forward_transfer=forward_transfer(returns, yard),
        plain_transfer=forward_transfer(returns, yard.plain),
        curve_transfer=np.array([curve_transfer(run, i, yard) for i in range(run.num_tasks)]),
        worst_case=worst_case(run, learnt, yard),
        zero_shot=zero_shot(run),
        seconds_per_session=seconds_per_session(run),
        bytes_kept=_after_tasks(run, bytes_kept),
        peak_bytes=_after_tasks(run, lambda cost: cost.peak_bytes),
    )


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


def _success_share(evaluation: Evaluation) -> float | None:
    return float(np.mean(evaluation.successes)) if evaluation.successes else None


def _final_matrix(run: Run, read: Callable[[Evaluation], float | None]) -> Matrix:
    matrix = np.full((run.num_tasks, run.num_tasks), math.nan)
    for evaluation in run.evaluations:
        value = read(evaluation)
        if evaluation.phase == "final" and value is not None:
            matrix[evaluation.task, evaluation.after] = value
    return matrix


def find_learnt(run: Run, yard: Yardstick) -> Float[np.ndarray, "T"]:
    """Per task 1 if it was learnt, 0 if not, NaN where that cannot be told (yet).

    Learnt is a task whose normalised return just after its training is at least `LEARNT`.
    Without a reference its test episodes must lie clearly above those of random actions: their
    means `CLEARLY_ABOVE` root-mean-square standard deviations apart (Cohen's d).
    """
    learnt = np.full(run.num_tasks, math.nan)
    for evaluation in run.evaluations:
        if evaluation.phase == "final" and evaluation.task == evaluation.after:
            learnt[evaluation.task] = _is_learnt(evaluation, yard)
    return learnt


def _is_learnt(evaluation: Evaluation, yard: Yardstick) -> float:
    task, is_zero_known = evaluation.task, math.isfinite(yard.random[evaluation.task])
    gain = evaluation.mean - yard.origin[task]
    if not math.isfinite(gain) or (gain < 0 and not is_zero_known):
        return math.nan  # below 0 may be good where all rewards are negative
    if gain < MIN_DENOMINATOR * yard.scale[task]:
        return 0.0
    normalised = yard.ratio(task, evaluation.mean, yard.single[task]).value
    if normalised is not None:
        return float(normalised >= LEARNT)
    if not is_zero_known:
        return math.nan
    noise = yard.random_spread[task]
    spread = np.std(evaluation.returns, ddof=1) if len(evaluation.returns) > 1 else noise
    return float(gain >= CLEARLY_ABOVE * math.sqrt((spread**2 + noise**2) / 2))


def normalise(returns: Float[np.ndarray, "T"], yard: Yardstick) -> tuple[Ratio, ...]:
    """n_i = (r_i − random_i) / (r*_i − random_i); undefined without either end of the scale."""
    found = [yard.ratio(i, r, yard.single[i]) for i, r in enumerate(returns)]
    known = np.isfinite(yard.random)
    return tuple(r if known[i] else r.refuse("random unknown") for i, r in enumerate(found))


def normalise_matrix(returns: Matrix, yard: Yardstick) -> Matrix:
    """n[i, j] of every test; NaN where it is undefined."""
    return np.stack([values(normalise(column, yard)) for column in returns.T], axis=1)


def has_holes(returns: Matrix) -> bool:
    """Whether a task was learnt without a test of all the tasks seen by then."""
    after = np.flatnonzero(np.isfinite(np.diagonal(returns)))
    return any(np.isnan(returns[: task + 1, task]).any() for task in after)


def retention(
    returns: Matrix, learnt: Float[np.ndarray, "T"], yard: Yardstick
) -> tuple[Ratio, ...]:
    """f_i for every task but the last; undefined for a task that was never learnt."""
    found = [yard.ratio(i, r[-1], r[i]) for i, r in enumerate(returns[:-1])]
    return _only_learnt(found, learnt)


def forward_transfer(returns: Matrix, yard: Yardstick) -> tuple[Ratio, ...]:
    """I_i for every task but the first."""
    own = np.diagonal(returns)
    return tuple(yard.ratio(i, own[i], yard.single[i]) for i in range(1, len(own)))


def worst_case(run: Run, learnt: Float[np.ndarray, "T"], yard: Yardstick) -> tuple[Ratio, ...]:
    """W_i = lowest gain in any evaluation after task i ended, over that of r[i, i], for i < T.

    Evaluations in the middle of later tasks count, so that a dip that has healed by the next
    task switch still shows: the stability gap (De Lange et al. 2023).
    """
    own = np.diagonal(returns_matrix(run))
    lowest = np.full(run.num_tasks, math.nan)
    for evaluation in run.evaluations:
        if evaluation.after > evaluation.task:
            lowest[evaluation.task] = np.fmin(lowest[evaluation.task], evaluation.mean)
    return _only_learnt([yard.ratio(i, lowest[i], own[i]) for i in range(len(own) - 1)], learnt)


def _only_learnt(ratios: Sequence[Ratio], learnt: Float[np.ndarray, "T"]) -> tuple[Ratio, ...]:
    """To have kept what was never there is no success; where learning is unknown it may be."""
    return tuple(r.refuse("not learnt") if learnt[i] == 0 else r for i, r in enumerate(ratios))


def forgetting(returns: Matrix) -> Float[np.ndarray, "T-1"]:
    """F_i = max_{i ≤ j < T} r[i, j] − r[i, T] (Chaudhry et al. 2018); negative is a gain."""
    best = [float(np.fmax.reduce(row[i:-1])) for i, row in enumerate(returns[:-1])]
    return np.array(best) - returns[:-1, -1]


def zero_shot(run: Run) -> Float[np.ndarray, "K"]:
    """Z_i = r[i, i−1]: the return on task i > 1 before any training on it."""
    scores = np.full(run.num_tasks, math.nan)
    for evaluation in run.evaluations:
        if evaluation.phase == "zero_shot":
            scores[evaluation.task] = evaluation.mean
    return scores[1:]


def curve_transfer(run: Run, task: int, yard: Yardstick) -> float:
    """Continual World's forward transfer (Wołczyk et al. 2021), NaN where it is undefined.

        C_i = (AUC_i − AUC*_i) / (1 − AUC*_i),   AUC = 1/(s_n − s_0) ∫ n_i(s) ds

    over the steps s of task i itself that both curves cover, by the trapezium rule; AUC*_i is
    the mean over the runs that learnt the task alone. Tests are compared with tests, and where
    either side has none during the task, episodes with episodes.
    """
    for read in (_tested_curve, _episode_curve):
        own = read(run, task)
        theirs = [curve for curve in (read(single, task) for single in yard.runs) if len(curve) > 1]
        if len(own) > 1 and theirs:
            break
    else:
        return math.nan
    start, end = max(map(min, (own, *theirs))), min(map(max, (own, *theirs)))
    heights = [_mean_height(own, start, end)]
    heights.append(float(np.mean([_mean_height(curve, start, end) for curve in theirs])))
    area, base = (yard.ratio(task, height, yard.single[task]).value for height in heights)
    if area is None or base is None or np.isnan(yard.random[task]) or 1 - base < MIN_DENOMINATOR:
        return math.nan
    return (area - base) / (1 - base)


def _tested_curve(run: Run, task: int) -> Curve:
    own = [e for e in run.evaluations if e.task == task]
    points = {e.step: e.mean for e in own if e.after == task}
    before = [e.mean for e in own if e.phase == "zero_shot"]
    # Two ends without a test between them are a line, not a curve.
    return ({0: before[-1]} if before else {}) | points if len(points) > 1 else {}


def _episode_curve(run: Run, task: int) -> Curve:
    return {e.step: e.total for e in run.episodes if e.task == task and not e.random}


def _mean_height(curve: Curve, start: int, end: int) -> float:
    if end <= start:
        return math.nan
    steps = sorted(curve)
    inside = [start, *(step for step in steps if start < step < end), end]
    heights = np.interp(inside, steps, [curve[step] for step in steps])
    return float(np.trapezoid(heights, inside) / (end - start))


def task_scales(
    runs: Sequence[Run], origin: Float[np.ndarray, "T"] | float
) -> Float[np.ndarray, "T"]:
    """Per task the largest gain over `origin` in any of the runs; 0 where there is none.

    Distances below it do not count, lest one run that blew up makes all others look small.
    """
    largest = [np.fmax.reduce(returns_matrix(run).T - origin, axis=0) for run in runs]
    return np.fmax(np.fmax.reduce(largest, axis=0), 0.0)


def seconds_per_session(run: Run) -> Float[np.ndarray, "T"]:
    """The median over a task's sessions, as the first one of a run also pays for compilation."""
    times = [[s.seconds for s in run.session_times if s.task == t] for t in range(run.num_tasks)]
    return np.array([np.median(seconds) if seconds else math.nan for seconds in times])


def bytes_kept(cost: Cost) -> int:
    """What is kept for finished tasks after a task: per-task state and old transitions."""
    return cost.bytes_per_task * (cost.task + 1) + cost.memory_bytes


def _after_tasks(run: Run, read: Callable[[Cost], float | None]) -> Float[np.ndarray, "T"]:
    found = np.full(run.num_tasks, math.nan)
    for cost in run.costs:
        value = read(cost)
        found[cost.task] = math.nan if value is None else value
    return found
