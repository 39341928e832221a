"""Numbers over few seeds, with honest intervals.

The paper reports mean ± standard deviation. Beside it stands the interquartile mean with a
stratified-bootstrap interval (Agarwal et al. 2021): each task is a stratum, within which the
seeds are drawn anew with replacement. Strata may differ in size, as seeds may be missing.
Such an interval tells how well a mean is known; performance profile and tolerance interval tell
what single runs do.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float

Strata = Sequence[Float[np.ndarray, "_"]]
"""One array of scores a task, one score a seed."""

Draws = Sequence[Float[np.ndarray, "B _"]]
"""Strata drawn B times; scores as they are stand in a batch of one."""

Statistic = Callable[[Draws], Float[np.ndarray, "... B"]]

NUM_RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A statistic with its bootstrap interval; None where fewer than two seeds allow no draw."""

    value: float
    interval: tuple[float, float] | None
    num_scores: int


@dataclass(frozen=True)
class Profile:
    """The share of scores above each threshold; `band` is its interval, threshold by threshold."""

    shares: Float[np.ndarray, "N"]
    band: tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]] | None
    num_scores: int


def mean_std(scores: Float[np.ndarray, "K"]) -> tuple[float, float | None]:
    """Mean and sample standard deviation over the scores that are not NaN.

    No score gives a NaN mean; a single one has no deviation.
    """
    scores = _clean(scores)
    if scores.size == 0:
        return math.nan, None
    return float(scores.mean()), float(scores.std(ddof=1)) if scores.size > 1 else None


def interquartile_mean(scores: Float[np.ndarray, "*B K"]) -> Float[np.ndarray, "*B"]:
    """The mean of the middle half along the last axis: a quarter is cut at either end."""
    return scipy.stats.trim_mean(scores, 0.25, axis=-1)


def estimate_iqm(strata: Strata, *, seed: int = 0) -> Estimate:
    """The interquartile mean over all tasks and seeds, with its interval."""
    scores = _without_gaps(strata)
    return _estimate(scores, _pooled_iqm, num_scores=_count(scores), seed=seed)


def _pooled_iqm(draws: Draws) -> Float[np.ndarray, "B"]:
    return interquartile_mean(np.concatenate(draws, axis=-1))


def estimate_improvement(ours: Strata, theirs: Strata, *, seed: int = 0) -> Estimate:
    """How probable it is that a run of ours beats one of theirs, on a task drawn at random.

        P = 1/K Σ_k 1/(n_k m_k) Σ_a Σ_b ([x_ka > y_kb] + ½ [x_ka = y_kb])

    Tasks that either side has no score for are left out.
    """
    pairs = [(x, y) for x, y in zip(map(_clean, ours), map(_clean, theirs), strict=True)]
    shared = [(x, y) for x, y in pairs if x.size and y.size]
    sides = [x for x, _ in shared] + [y for _, y in shared]
    num_scores = _count([x for x, _ in shared])
    return _estimate(sides, _win_rate, num_scores=num_scores, seed=seed)


def _win_rate(sides: Draws) -> Float[np.ndarray, "B"]:
    """P from all strata of ours, followed by all of theirs."""
    num_tasks = len(sides) // 2
    rates = []
    for x, y in zip(sides[:num_tasks], sides[num_tasks:], strict=True):
        difference = x[:, :, None] - y[:, None, :]
        rates.append(((np.sign(difference) + 1) / 2).mean(axis=(1, 2)))
    return np.mean(rates, axis=0)


def performance_profile(
    strata: Strata, thresholds: Float[np.ndarray, "N"], *, seed: int = 0
) -> Profile:
    """The share of runs that score above each threshold (Agarwal et al. 2021, section 4.2).

        F(τ) = 1/K Σ_k 1/n_k Σ_a [x_ka > τ]

    Every task counts the same, however many seeds it has.
    """
    scores = _without_gaps(strata)
    if not scores:
        return Profile(np.full(len(thresholds), math.nan), None, 0)

    def share_above(draws: Draws) -> Float[np.ndarray, "N B"]:
        return np.mean([(x > thresholds[:, None, None]).mean(axis=-1) for x in draws], axis=0)

    shares = _evaluate(share_above, scores)
    return Profile(shares, _bootstrap(share_above, scores, seed), _count(scores))


def tolerance_interval(
    scores: Float[np.ndarray, "_"], coverage: float, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Bounds that hold at least a share `coverage` of all runs, with at least this confidence.

    The bounds are runs themselves, as many cut off below as above. Between the c-th score from
    below and the c-th from above lies a share B of all runs that depends on no distribution,
    P(B ≥ coverage) = P(Binomial(K, coverage) ≤ K − 2c): Wilks (1941), "Determination of sample
    sizes for setting tolerance limits", Annals of Mathematical Statistics 12; for runs of
    reinforcement learning, Patterson et al. (2024), "Empirical design in reinforcement
    learning", JMLR 25. Normal theory would give bounds for 4 runs too, but runs that learn or
    fail have two humps, and its bounds would then claim what nobody has seen.

    None where even the lowest and the highest run promise too little: half of all runs take 8
    for 95 % confidence and 5 for 80 %, nine tenths take 46.
    """
    ordered = np.sort(_clean(scores))
    needed = scipy.stats.binom.ppf(confidence, ordered.size, coverage)
    rank = int(ordered.size - needed) // 2
    return (float(ordered[rank - 1]), float(ordered[-rank])) if rank > 0 else None


def _estimate(strata: Strata, statistic: Statistic, *, num_scores: int, seed: int) -> Estimate:
    if num_scores == 0:
        return Estimate(math.nan, None, 0)
    ends = _bootstrap(statistic, strata, seed)
    interval = (float(ends[0]), float(ends[1])) if ends else None
    return Estimate(float(_evaluate(statistic, strata)), interval, num_scores)


def _evaluate(statistic: Statistic, strata: Strata):
    return statistic([stratum[None] for stratum in strata])[..., 0]


def _bootstrap(statistic: Statistic, strata: Strata, seed: int):
    """Both ends of a statistic's percentile interval, each stratum drawn on its own.

    A stratum of one score is the same in every draw; scipy would refuse to draw it.
    """
    drawable = [stratum for stratum in strata if stratum.size > 1]
    if not drawable:
        return None

    def of_draws(*drawn: Float[np.ndarray, "B _"], axis: int):
        waiting = iter(drawn)
        fixed = (len(drawn[0]), 1)
        return statistic(
            [next(waiting) if s.size > 1 else np.broadcast_to(s, fixed) for s in strata]
        )

    found = scipy.stats.bootstrap(
        drawable,
        of_draws,
        n_resamples=NUM_RESAMPLES,
        vectorized=True,
        axis=-1,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return tuple(found.confidence_interval)


def _without_gaps(strata: Strata) -> list[Float[np.ndarray, "_"]]:
    return [stratum for stratum in map(_clean, strata) if stratum.size]


def _count(strata: Strata) -> int:
    return sum(stratum.size for stratum in strata)


def _clean(stratum: Float[np.ndarray, "_"]) -> Float[np.ndarray, "_"]:
    return stratum[~np.isnan(stratum)]
