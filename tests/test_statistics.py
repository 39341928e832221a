"""Our statistics against known answers, and their behaviour with few seeds."""

import math

import numpy as np
import pytest
import scipy.stats

from hypercrl.analysis import statistics


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 16, 21])
def test_interquartile_mean_cuts_a_quarter_at_either_end(count):
    scores = np.random.default_rng(count).normal(size=(3, count))
    middle = np.sort(scores)[:, count // 4 : count - count // 4]
    assert statistics.interquartile_mean(scores) == pytest.approx(middle.mean(axis=1))


def test_iqm_interval_draws_seeds_within_each_task():
    rng = np.random.default_rng(0)
    strata = [rng.normal(10 * task, 1.0, size=10) for task in range(3)]
    drawn = [
        scipy.stats.trim_mean(np.concatenate([rng.choice(s, s.size) for s in strata]), 0.25)
        for _ in range(5_000)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    ours = statistics.estimate_iqm(strata)
    assert ours.value == pytest.approx(scipy.stats.trim_mean(np.concatenate(strata), 0.25))
    assert ours.interval == pytest.approx((low, high), abs=0.08 * (high - low))


def test_a_task_with_one_seed_counts_once_and_is_the_same_in_every_draw():
    lone, even = np.array([9.0]), np.array([1.0, 1.0])
    found = statistics.estimate_iqm([even, lone])
    assert found.value == pytest.approx(11 / 3)
    assert found.interval == pytest.approx((11 / 3, 11 / 3))
    # The lone seed wins its task for certain, so half of P is fixed.
    mixed = statistics.estimate_improvement([lone, np.arange(8.0)], [even, np.full(8, 3.5)])
    assert mixed.value == pytest.approx(0.75)
    assert mixed.interval is not None
    assert 0.5 <= mixed.interval[0] < 0.75 < mixed.interval[1] <= 1.0


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


def test_a_profile_is_the_mean_over_tasks_of_the_share_above_each_threshold():
    strata = [np.array([0.0, 1.0]), np.array([2.0, 3.0, math.nan, 3.0, 3.0]), np.array([math.nan])]
    profile = statistics.performance_profile(strata, np.array([-1.0, 0.5, 2.0, 3.0]))
    assert profile.shares == pytest.approx([1.0, 0.75, 0.375, 0.0])
    assert profile.num_scores == 6


def test_a_profiles_band_holds_the_middle_of_a_binomial_distribution():
    # Of 10 runs 4 are above, so a draw of 10 has Binomial(10, 0.4) above.
    profile = statistics.performance_profile([np.arange(10.0)], np.array([5.5]))
    expected = scipy.stats.binom.ppf([0.025, 0.975], 10, 0.4) / 10
    assert profile.band is not None
    assert np.ravel(profile.band) == pytest.approx(expected)


def test_a_profiles_band_draws_no_run_of_another_task():
    # One task always below, one always above: pooled runs would give a band around a half.
    strata = [np.zeros(5), np.full(5, 2.0)]
    profile = statistics.performance_profile(strata, np.array([1.0]))
    assert profile.band is not None
    assert np.ravel(profile.band) == pytest.approx([0.5, 0.5])


def test_a_profile_of_few_or_no_runs_has_no_band():
    thresholds = np.array([0.0, 1.0])
    lone = statistics.performance_profile([np.array([0.5])], thresholds)
    assert (lone.shares.tolist(), lone.band) == ([1.0, 0.0], None)
    empty = statistics.performance_profile([np.array([math.nan])], thresholds)
    assert np.isnan(empty.shares).all()
    assert (empty.band, empty.num_scores) == (None, 0)


# How many runs lowest and highest must come from: tables after Wilks (1941).
@pytest.mark.parametrize(
    ("coverage", "confidence", "fewest"),
    [(0.5, 0.8, 5), (0.5, 0.95, 8), (0.9, 0.9, 38), (0.9, 0.95, 46), (0.95, 0.95, 93)],
)
def test_a_tolerance_interval_takes_as_many_runs_as_wilks_says(coverage, confidence, fewest):
    scores = np.random.default_rng(0).permutation(np.arange(float(fewest)))
    with_gaps = np.append(scores, math.nan)
    found = statistics.tolerance_interval(with_gaps, coverage, confidence)
    assert found == (0.0, fewest - 1.0)
    assert statistics.tolerance_interval(with_gaps[1:], coverage, confidence) is None


def test_a_tolerance_interval_cuts_both_ends_alike_where_runs_are_many():
    found = statistics.tolerance_interval(np.arange(1.0, 101.0), 0.9, 0.95)
    assert found == (2.0, 99.0)  # P(Binomial(100, 0.9) ≤ 96) ≥ 0.95, for 94 not


def test_a_tolerance_interval_holds_its_share_of_runs_with_two_humps():
    rng = np.random.default_rng(4)
    held = []
    for _ in range(2_000):
        # Three runs of ten fail, near 0; the others learn, near 1. Uniform within 0.1.
        share = rng.uniform(size=8)
        scores = np.where(share < 0.3, share / 3, 1 + (share - 0.3) / 7)
        low, high = statistics.tolerance_interval(scores, 0.5, 0.95) or (0.0, 0.0)
        ends = np.array([low, high])
        inside = np.diff(np.where(ends < 0.5, 3 * ends, 0.3 + 7 * (ends - 1)))
        held.append(inside.item() >= 0.5)
    # Exactly 1 − 8 · 0.5⁷ + 7 · 0.5⁸ for the lowest and highest of eight.
    assert np.mean(held) == pytest.approx(0.9648, abs=0.015)
