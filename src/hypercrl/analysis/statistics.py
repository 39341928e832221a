"""Numbers over few seeds, with honest intervals.

The paper reports mean ± standard deviation. Beside it stands the interquartile mean with a
stratified-bootstrap interval (Agarwal et al. 2021): each task is a stratum, within which the
seeds are drawn anew with replacement. Strata may differ in size, as seeds may be missing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Strata = Sequence[Float[np.ndarray, "_"]]
"""One array of scores a task, one score a seed."""

NUM_RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A statistic with its bootstrap interval; None where fewer than two seeds allow no draw."""

    value: float
    interval: tuple[float, float] | None
    num_scores: int


def mean_std(scores: Float[np.ndarray, "K"]) -> tuple[float, float | None]:
    """Mean and sample standard deviation over the scores that are not NaN.

    No score gives a NaN mean; a single one has no deviation.
    """
    scores = scores[~np.isnan(scores)]
    if scores.size == 0:
        return math.nan, None
    return float(scores.mean()), float(scores.std(ddof=1)) if scores.size > 1 else None


def interquartile_mean(scores: Float[np.ndarray, "*B K"]) -> Float[np.ndarray, "*B"]:
    """The mean of the middle half along the last axis: a quarter is cut at either end."""
    count = scores.shape[-1]
    cut = count // 4
    return np.sort(scores, axis=-1)[..., cut : count - cut].mean(axis=-1)


def estimate_iqm(strata: Strata, *, seed: int = 0) -> Estimate:
    """The interquartile mean over all tasks and seeds, with its interval."""
    return _estimate([strata], lambda draws: interquartile_mean(_pool(draws[0])), seed)


def estimate_improvement(ours: Strata, theirs: Strata, *, seed: int = 0) -> Estimate:
    """How probable it is that a run of ours beats one of theirs, on a task drawn at random.

        P = 1/K Σ_k 1/(n_k m_k) Σ_a Σ_b ([x_ka > y_kb] + ½ [x_ka = y_kb])

    Tasks that either side has no score for are left out.
    """
    pairs = [(x, y) for x, y in zip(map(_clean, ours), map(_clean, theirs), strict=True)]
    shared = [(x, y) for x, y in pairs if x.size and y.size]
    sides = [[x for x, _ in shared], [y for _, y in shared]]
    return _estimate(sides, lambda draws: _win_rate(*draws), seed)


def _win_rate(ours: Strata, theirs: Strata) -> Float[np.ndarray, "*B"]:
    rates = []
    for x, y in zip(ours, theirs, strict=True):
        difference = x[..., :, None] - y[..., None, :]
        rates.append(((np.sign(difference) + 1) / 2).mean(axis=(-2, -1)))
    return np.mean(rates, axis=0)


def _estimate(samples: Sequence[Strata], statistic: Callable, seed: int) -> Estimate:
    """A statistic of one or more samples, each resampled stratum by stratum."""
    clean = [[s for s in map(_clean, strata) if s.size] for strata in samples]
    num_scores = sum(stratum.size for stratum in clean[0])
    if num_scores == 0:
        return Estimate(math.nan, None, 0)
    value = float(statistic(clean))
    if max(stratum.size for strata in clean for stratum in strata) < 2:
        return Estimate(value, None, num_scores)
    rng = np.random.default_rng(seed)
    draws = [[_resample(stratum, rng) for stratum in strata] for strata in clean]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(statistic(draws), [tail, 1 - tail])
    return Estimate(value, (float(low), float(high)), num_scores)


def _resample(stratum: Float[np.ndarray, "K"], rng: np.random.Generator):
    return stratum[rng.integers(stratum.size, size=(NUM_RESAMPLES, stratum.size))]


def _pool(strata: Strata) -> Float[np.ndarray, "*B K"]:
    return np.concatenate(strata, axis=-1)


def _clean(stratum: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K"]:
    return stratum[~np.isnan(stratum)]
