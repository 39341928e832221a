"""Our statistics against scipy's, and their behaviour with few seeds."""

import math

import numpy as np
import pytest
import scipy.stats

from hypercrl.analysis import statistics


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 16, 21])
def test_interquartile_mean_is_a_trimmed_mean(count):
    scores = np.random.default_rng(count).normal(size=(3, count))
    expected = scipy.stats.trim_mean(scores, 0.25, axis=-1)
    assert statistics.interquartile_mean(scores) == pytest.approx(expected)


def test_iqm_interval_agrees_with_scipys_stratified_bootstrap():
    rng = np.random.default_rng(0)
    strata = [rng.normal(task, 1.0, size=10) for task in range(3)]

    def statistic(*samples, axis):
        return statistics.interquartile_mean(np.concatenate(samples, axis=axis))

    theirs = scipy.stats.bootstrap(
        strata, statistic, n_resamples=9_999, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    ours = statistics.estimate_iqm(strata)
    assert ours.value == pytest.approx(scipy.stats.trim_mean(np.concatenate(strata), 0.25))
    assert ours.interval is not None
    width = theirs.high - theirs.low
    assert ours.interval == pytest.approx((theirs.low, theirs.high), abs=0.08 * width)


def test_improvement_is_the_mean_of_mann_whitney_statistics():
    rng = np.random.default_rng(2)
    ours = [rng.integers(0, 6, size=n).astype(float) for n in (4, 7)]
    theirs = [rng.integers(0, 6, size=n).astype(float) for n in (5, 3)]
    expected = np.mean(
        [
            scipy.stats.mannwhitneyu(x, y).statistic / (x.size * y.size)
            for x, y in zip(ours, theirs, strict=True)
        ]
    )
    found = statistics.estimate_improvement(ours, theirs)
    assert found.value == pytest.approx(expected)
    assert found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]
    mirrored = statistics.estimate_improvement(theirs, ours)
    assert found.value + mirrored.value == pytest.approx(1.0)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hits = 0
    for trial in range(200):
        strata = [rng.normal(size=20) for _ in range(2)]
        low, high = statistics.estimate_iqm(strata, seed=trial).interval or (1, -1)
        hits += low <= 0.0 <= high
    assert 0.87 <= hits / 200 <= 0.99


def test_missing_scores_are_left_out():
    with_gaps = [np.array([1.0, math.nan, 3.0]), np.array([math.nan]), np.array([5.0, 7.0])]
    without = [np.array([1.0, 3.0]), np.array([5.0, 7.0])]
    assert statistics.estimate_iqm(with_gaps) == statistics.estimate_iqm(without)
    assert statistics.estimate_iqm(with_gaps).num_scores == 4
    mean, deviation = statistics.mean_std(np.array([1.0, math.nan, 3.0]))
    assert (mean, deviation) == pytest.approx((2.0, math.sqrt(2)))


def test_tasks_that_one_side_lacks_do_not_enter_the_improvement():
    ours = [np.array([1.0, 2.0]), np.array([9.0, 9.0])]
    theirs = [np.array([0.0, 0.0]), np.array([math.nan])]
    assert statistics.estimate_improvement(ours, theirs).value == 1.0


def test_a_single_seed_has_a_value_but_neither_deviation_nor_interval():
    assert statistics.mean_std(np.array([4.0])) == (4.0, None)
    found = statistics.estimate_iqm([np.array([2.0]), np.array([4.0])])
    assert (found.value, found.interval) == (3.0, None)


def test_no_score_at_all_is_nan():
    assert math.isnan(statistics.mean_std(np.array([math.nan]))[0])
    assert math.isnan(statistics.estimate_iqm([np.array([math.nan])]).value)
    nothing = [np.array([math.nan])]
    assert math.isnan(statistics.estimate_improvement(nothing, nothing).value)


def test_the_same_seed_draws_the_same_interval():
    strata = [np.arange(6.0)]
    assert statistics.estimate_iqm(strata, seed=5) == statistics.estimate_iqm(strata, seed=5)
    assert statistics.estimate_iqm(strata, seed=5) != statistics.estimate_iqm(strata, seed=6)
