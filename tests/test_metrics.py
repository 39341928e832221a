"""Metric definitions on matrices worked out by hand, and the reading of run folders."""

import csv
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from hypercrl.analysis import metrics, paper
from hypercrl.analysis.comparison import Comparison, Entry, compare
from hypercrl.analysis.labels import choose_labels, make_unique
from hypercrl.analysis.summary import summarise
from hypercrl.analysis.tables.cost import cost_table
from hypercrl.errors import UserError
from hypercrl.experiment.records import Cost, Episode, Evaluation, RandomPolicy
from hypercrl.experiment.run_folder import Code, find_runs, read_config, read_run
from synthetic_runs import CODE, Recipe, write_matrix, write_records, write_run, write_runs

NAN = math.nan
RETURNS = np.array([[200.0, 240.0, 150.0], [NAN, 100.0, 120.0], [NAN, NAN, 300.0]])
ALL_LEARNT = np.ones(3)
YARD = metrics.Yardstick(
    random=np.array([-100.0, 20.0, 0.0]),
    random_spread=np.zeros(3),
    single=np.array([300.0, 100.0, 400.0]),
    scale=np.array([340.0, 100.0, 400.0]),
    plain_scale=np.array([300.0, 120.0, 400.0]),
)
SUITE: dict[str, Any] = {"num_tasks": 2, "eval_every": 0}


def _compare(*paths: Path, current: str = "") -> Comparison:
    (comparison,) = compare([read_run(path) for path in paths], current)
    return comparison


def _entry(comparison: Comparison, label: str) -> Entry:
    return next(entry for entry in comparison.entries if entry.label == label)


def test_returns_are_normalised_between_random_and_single():
    found = metrics.values(metrics.normalise(RETURNS[:, -1], YARD))
    assert found == pytest.approx([250 / 400, 100 / 80, 300 / 400])


def test_without_random_or_single_nothing_is_normalised():
    for known in ({"random": np.array([NAN, 20.0, NAN])}, {"single": np.array([NAN, 100, NAN])}):
        yard = replace(YARD, **known)
        found = metrics.values(metrics.normalise(RETURNS[:, -1], yard))
        assert np.isnan(found).tolist() == [True, False, True]


def test_retention_counts_from_what_random_actions_earn():
    found = metrics.values(metrics.retention(RETURNS, ALL_LEARNT, YARD))
    assert found == pytest.approx([250 / 300, 100 / 80])
    plain = metrics.values(metrics.retention(RETURNS, ALL_LEARNT, YARD.plain))
    assert plain == pytest.approx([0.75, 1.2])


def test_forward_transfer_divides_by_the_reference_from_the_second_task_on():
    found = metrics.values(metrics.forward_transfer(RETURNS, YARD))
    assert found == pytest.approx([80 / 80, 300 / 400])
    plain = metrics.values(metrics.forward_transfer(RETURNS, YARD.plain))
    assert plain == pytest.approx([1.0, 0.75])


def test_negative_returns_have_retention_and_transfer_too():
    returns = np.array([[-200.0, -700.0], [NAN, -300.0]])
    yard = metrics.Yardstick(
        random=np.full(2, -1200.0),
        random_spread=np.ones(2),
        single=np.full(2, -200.0),
        scale=np.full(2, 1000.0),
        plain_scale=np.full(2, 700.0),
    )
    assert metrics.values(metrics.retention(returns, np.ones(2), yard)) == pytest.approx([0.5])
    assert metrics.values(metrics.forward_transfer(returns, yard)) == pytest.approx([0.9])
    assert np.isnan(metrics.values(metrics.retention(returns, np.ones(2), yard.plain))).all()


def test_forgetting_counts_from_the_best_earlier_return():
    assert metrics.forgetting(RETURNS) == pytest.approx([90.0, -20.0])


@pytest.mark.parametrize("denominator", [0.0, -40.0, -100.0, -84.0, NAN])
def test_a_ratio_over_nothing_is_undefined_and_keeps_its_returns(denominator):
    yard = replace(YARD, random=np.full(3, -100.0))
    found = (yard if denominator < -80 else yard.plain).ratio(0, 300.0, denominator)
    assert found.value is None
    assert found.numerator == 300.0
    assert found.denominator == pytest.approx(denominator, nan_ok=True)


def test_a_negative_numerator_over_a_sound_denominator_is_defined():
    assert YARD.plain.ratio(0, -30.0, 300.0).value == pytest.approx(-0.1)


def test_a_task_never_learnt_has_no_retention_and_does_not_enter_the_average():
    found = metrics.retention(RETURNS, np.array([0.0, NAN, 1.0]), YARD)
    assert found[0].value is None
    assert found[0].reason == "not learnt"
    assert metrics.mean_of_defined(metrics.values(found)) == pytest.approx(100 / 80)
    assert math.isnan(metrics.mean_of_defined(np.array([NAN, NAN])))


@pytest.mark.parametrize(
    ("gain", "expected"), [(0.49, 0), (0.51, 1), (0.01, 0), (-0.3, 0), (NAN, NAN)]
)
def test_learnt_is_half_of_what_single_gains(tmp_path, gain, expected):
    value = -100 + gain * 400
    run = read_run(
        write_records(tmp_path, Recipe("si", num_tasks=3), [_test(0, 0, "final", 9, value)])
    )
    assert metrics.find_learnt(run, YARD) == pytest.approx([expected, NAN, NAN], nan_ok=True)


def test_without_a_reference_learnt_is_clearly_above_random(tmp_path):
    tests = [_test(i, i, "final", 9, 0.0) for i in range(3)]
    tests = [
        replace(test, returns=returns)
        for test, returns in zip(tests, [(90.0, 110.0), (40.0, 160.0), (40.0, 160.0)], strict=True)
    ]
    run = read_run(write_records(tmp_path, Recipe("si", num_tasks=3), tests))
    nothing = np.full(3, NAN)
    yard = replace(YARD, random=np.array([80.0, 80.0, NAN]), single=nothing, scale=np.full(3, 99.0))
    # 20 above random: more than 10 (episodes ±14, random ±0), less than 60 (±85), and unknown.
    assert metrics.find_learnt(run, yard) == pytest.approx([1, 0, NAN], nan_ok=True)


def test_an_unfinished_run_has_no_retention_yet(tmp_path):
    returns = RETURNS.copy()
    returns[:, 2] = NAN
    run = read_run(write_matrix(tmp_path, "si", returns))
    scores = metrics.score(run, YARD)
    assert [r.value for r in scores.retention] == [None, None]
    assert scores.retention[0].denominator == 200.0
    assert math.isnan(scores.average_performance)
    assert math.isnan(scores.normalised_performance)


def test_the_matrix_holds_final_evaluations_only(tmp_path):
    run = read_run(write_run(tmp_path, Recipe("si", num_tasks=3)))
    found = metrics.returns_matrix(run)
    assert np.isfinite(found[np.triu_indices(3)]).all()
    assert np.isnan(found[np.tril_indices(3, -1)]).all()
    last = [e for e in run.evaluations if e.phase == "final" and e.task == 1 and e.after == 2]
    assert found[1, 2] == pytest.approx(np.mean(last[0].returns))


def _test(task, after, phase, step, value, **more) -> Evaluation:
    return Evaluation(task, step, 0, after, phase, (value - 1, value + 1), **more)


def test_worst_case_sees_a_dip_in_the_middle_of_a_later_task(tmp_path):
    tests = [
        _test(0, 0, "training", 100, 10.0),  # its own training does not count
        _test(0, 0, "final", 200, 200.0),
        _test(0, 1, "training", 100, 50.0),
        _test(0, 1, "final", 200, 180.0),
        _test(1, 1, "final", 200, 100.0),
    ]
    run = read_run(write_records(tmp_path, Recipe("si", num_tasks=2), tests))
    assert metrics.task_scales([run], np.array([-100.0, 20.0])) == pytest.approx([300.0, 80.0])
    assert metrics.values(metrics.worst_case(run, ALL_LEARNT, YARD)) == pytest.approx([150 / 300])
    assert metrics.values(metrics.score(run, YARD).retention) == pytest.approx([280 / 300])


def _curve(root: Path, method: str, heights: list[float], **options) -> Path:
    """A run of one task, tested every 100 steps; random actions earn 100."""
    tests = [_test(0, 0, "training", 100 * k, height) for k, height in enumerate(heights)]
    tests[-1] = replace(tests[-1], phase="final")
    recipe = Recipe(method, num_tasks=1, **options)
    return write_records(root, recipe, [RandomPolicy(0, (90.0, 110.0)), *tests])


def test_curve_transfer_is_the_area_between_the_curves_over_what_is_left_above(tmp_path):
    single = _curve(tmp_path, "single", [100.0, 200.0, 300.0])  # normalised 0, ½, 1: area ½
    quicker = _curve(tmp_path, "si", [100.0, 300.0, 300.0])  # 0, 1, 1: area ¾
    slower = _curve(tmp_path, "ewc", [100.0, 100.0, 300.0])  # 0, 0, 1: area ¼
    found = _compare(single, quicker, slower)
    assert _entry(found, "SI").scores[0].curve_transfer == pytest.approx([0.5])
    assert _entry(found, "EWC").scores[0].curve_transfer == pytest.approx([-0.5])
    alone = _compare(quicker, slower)
    assert np.isnan(_entry(alone, "SI").scores[0].curve_transfer).all()


def test_curve_transfer_compares_episodes_where_either_side_was_not_tested(tmp_path):
    def episodes(*totals):
        return [Episode(0, 100 * k, 0, k, total, False) for k, total in enumerate(totals)]

    own = [RandomPolicy(0, (90.0, 110.0)), _test(0, 0, "final", 200, 300.0)]
    single = write_records(
        tmp_path, Recipe("single", num_tasks=1), [*own, *episodes(100.0, 200.0, 300.0)]
    )
    tested = [_test(0, 0, "training", 100, 300.0), Episode(0, 0, 0, 0, 999.0, True)]
    quicker = write_records(
        tmp_path, Recipe("si", num_tasks=1), [*own, *tested, *episodes(100.0, 300.0, 300.0)]
    )
    found = _compare(single, quicker)
    assert _entry(found, "SI").scores[0].curve_transfer == pytest.approx([0.5])


def test_model_errors_and_successes_keep_their_place_in_the_matrix(tmp_path):
    tests = [
        _test(0, 0, "final", 9, 1.0, one_step=0.1, h_step=0.5, successes=(True, False)),
        _test(0, 1, "final", 9, 1.0, one_step=0.2),
    ]
    run = read_run(write_records(tmp_path, Recipe("si", num_tasks=2), tests))
    scores = metrics.score(run, YARD)
    assert scores.one_step[0] == pytest.approx([0.1, 0.2])
    assert scores.h_step[0] == pytest.approx([0.5, NAN], nan_ok=True)
    assert scores.successes[0] == pytest.approx([0.5, NAN], nan_ok=True)


def test_cost_counts_what_is_kept_and_what_is_held(tmp_path):
    costs = [Cost(task, 9, 9, 5, 40, 100 * task, 7, 900 + task) for task in range(2)]
    sessions = read_run(write_run(tmp_path, Recipe("coreset", num_tasks=2))).session_times
    run = read_run(write_records(tmp_path / "b", Recipe("si", num_tasks=2), [*costs, *sessions]))
    scores = metrics.score(run, YARD)
    assert scores.bytes_kept == pytest.approx([40, 180])
    assert scores.peak_bytes == pytest.approx([900, 901])
    assert scores.seconds_per_session == pytest.approx([0.5, 0.65], rel=0.05)
    (row,) = csv.DictReader(cost_table(_compare(run.path)).to_csv().splitlines())
    shown = [row[k] for k in ("Kept per finished task", "Kept in all", "Peak while learning")]
    assert list(map(float, shown)) == [90, 180, 901]


def test_the_reference_is_the_mean_over_its_seeds_and_ignores_missing_ones(tmp_path):
    half = RETURNS.copy()
    half[:, 2] = NAN
    half[0, 0] = 100.0
    found = _compare(
        write_matrix(tmp_path, "single", RETURNS, seed=0),
        write_matrix(tmp_path, "single", half, seed=1),
        write_matrix(tmp_path, "si", 2 * RETURNS, seed=0),
    )
    entry = _entry(found, "SI")
    assert entry.yardstick.single == pytest.approx([150.0, 100.0, 300.0])
    assert metrics.values(entry.scores[0].forward_transfer) == pytest.approx([2.0, 2.0])


def test_random_actions_are_pooled_over_all_runs_of_a_comparison(tmp_path):
    found = _compare(
        write_matrix(tmp_path, "si", RETURNS, random=[10.0, 20.0, 30.0]),
        write_matrix(tmp_path, "ewc", RETURNS, random=[30.0, 20.0, 10.0]),
        write_matrix(tmp_path, "coreset", RETURNS),
    )
    for entry in found.entries:
        assert entry.yardstick.random == pytest.approx([20.0, 20.0, 20.0])


@pytest.mark.parametrize(
    ("changed", "matches"),
    [
        ({"updates": 50}, False),
        ({"planner": "cem"}, False),
        ({"planning": {"num_samples": 500, "horizon": 20}}, False),
        ({"learner": {"learning_rate": 1e-3, "network": {"hidden": [20]}}}, False),
        ({"learner": {"learning_rate": 1e-4, "network": {"hidden": [200]}}}, True),
        ({"eval_every": 200}, True),  # how often it was tested changes nothing
        ({"learner": {"grids": 33}}, True),  # what only one of them has is its own
    ],
)
def test_the_reference_must_share_every_setting_that_both_have(tmp_path, changed, matches):
    learner = {"learning_rate": 1e-3, "network": {"hidden": [200]}}
    single = write_run(tmp_path, Recipe("single", **SUITE, learner=learner))
    own = write_run(tmp_path, replace(Recipe("si", **SUITE, learner=learner), **changed))
    entry = _entry(_compare(single, own), "SI")
    assert bool(entry.yardstick.runs) is matches
    assert np.isfinite(entry.normalised) == matches


def test_of_several_references_all_take_the_one_that_most_agree_with(tmp_path):
    def recipe(method: str, rate: float, **options) -> Recipe:
        return Recipe(method, learner={"learning_rate": rate}, **SUITE, **options)

    found = _compare(
        write_run(tmp_path / "a", recipe("single", 1e-3)),
        write_run(tmp_path / "b", recipe("single", 1e-2, skill=0.1)),
        write_run(tmp_path, recipe("ewc", 1e-3)),
        write_run(tmp_path, recipe("hypercrl", 1e-4)),
    )
    for label in ("HyperCRL", "EWC"):
        (chosen,) = _entry(found, label).yardstick.runs
        assert chosen.path.parent.name == "a"


def test_runs_are_grouped_by_suite_preset_and_what_differs(tmp_path):
    paths = write_runs(tmp_path, ["si", "ewc"], [0, 1], ("pusher", "door"), num_tasks=2)
    paths.append(write_run(tmp_path / "b", Recipe("si", 0, num_tasks=2, learner={"c": 0.5})))
    paths.append(write_run(tmp_path, Recipe("si", preset="paper", num_tasks=2)))
    paths.append(write_run(tmp_path / "c", Recipe("si", num_tasks=3)))
    groups = compare([read_run(path) for path in paths])
    assert [(g.suite, g.preset, len(g.tasks), g.slug) for g in groups] == [
        ("pusher", "laptop", 2, "pusher-laptop"),
        ("pusher", "laptop", 3, "pusher-laptop-2"),
        ("pusher", "paper", 2, "pusher-paper"),
        ("door", "laptop", 2, "door-laptop"),
    ]
    assert {e.label: e.seeds for e in groups[0].entries} == {
        "SI (c –, learning rate 0.001)": (0, 1),
        "SI (c 0.5, learning rate –)": (0,),
        "EWC": (0, 1),
    }


def test_presets_never_share_a_slug(tmp_path):
    presets = ["a_b", "a-b", "a b 2"]
    runs = [write_run(tmp_path, Recipe("si", preset=name, num_tasks=1)) for name in presets]
    slugs = [found.slug for found in compare([read_run(run) for run in runs])]
    assert len(set(slugs)) == 3
    assert make_unique(["a", "a", "a-2"], "-") == ["a", "a-3", "a-2"]


def _label(*recipes: Recipe, root: Path) -> list[str]:
    paths = [write_run(root / str(k), recipe) for k, recipe in enumerate(recipes)]
    return choose_labels([read_config(path) for path in paths])


def test_a_label_is_the_method_with_the_sweeps_name_or_the_settings_that_differ(tmp_path):
    short = Recipe("hypercrl", num_tasks=1, stop_after=0)
    rates = [replace(short, learner={"beta": b, "learning_rate": r}) for b, r in [(1, 2), (3, 4)]]
    assert _label(*rates, root=tmp_path / "a") == [
        "HyperCRL (beta 1, learning rate 2)",
        "HyperCRL (beta 3, learning rate 4)",
    ]
    named = [replace(one, name=name) for one, name in zip(rates, ["weak", "strong"], strict=True)]
    assert _label(*named, root=tmp_path / "b") == ["HyperCRL: weak", "HyperCRL: strong"]
    own = [replace(short, name="HyperCRL of old"), replace(short, method="si", name="weak")]
    assert _label(*own, root=tmp_path / "d") == ["HyperCRL of old", "SI: weak"]
    many = [{f"s{k}": k + n for k in range(5)} | {"hypernet": {"kind": "rank"}} for n in range(3)]
    many[2]["hypernet"] = {"kind": "chunked"}
    assert _label(*(replace(short, learner=own) for own in many), root=tmp_path / "c") == [
        "HyperCRL (s0 0)",
        "HyperCRL (s0 1)",
        "HyperCRL (s0 2)",
    ]


def test_entries_stand_in_the_order_of_what_they_can_do_at_the_end(tmp_path):
    paths = write_runs(tmp_path, ["si", "finetune", "single"], [0, 1], **SUITE)
    paths.append(write_run(tmp_path, Recipe("hypercrl", 0, fails=(0,), **SUITE)))
    found = _compare(*paths)
    assert found.ranks_normalised
    assert [e.label for e in found.entries] == ["SI", "Fine-tuning", "HyperCRL", "Single-task"]
    other = write_run(tmp_path, Recipe("ewc", 0, planner="cem", skill=2.0, **SUITE))
    mixed = _compare(*paths, other)
    assert not mixed.ranks_normalised  # one has no reference: all are ranked by plain returns
    assert mixed.entries[0].label == "EWC"


def test_an_unfinished_seed_does_not_lower_the_number_of_tasks_learnt(tmp_path):
    paths = write_runs(tmp_path, ["si", "single"], [0, 1], num_tasks=3)
    paths.append(write_run(tmp_path, Recipe("si", 2, num_tasks=3, stop_after=1)))
    paths.append(write_run(tmp_path, Recipe("si", 3, num_tasks=3, fails=(0,))))
    assert _entry(_compare(*paths), "SI").learnt == "2.8 of 3"  # 3/4 + 1 + 1
    lone = write_run(tmp_path / "lone", Recipe("si", num_tasks=3, stop_after=0))
    assert _compare(lone).entries[0].learnt == "–"


def test_a_run_that_blew_up_does_not_make_the_others_look_small(tmp_path):
    found = _compare(
        write_matrix(tmp_path, "si", RETURNS, random=[0.0, 0.0, 0.0]),
        write_matrix(tmp_path, "ewc", np.where(np.isnan(RETURNS), NAN, -1e6)),
        write_matrix(tmp_path, "single", RETURNS),
    )
    assert [(entry.label, entry.learnt) for entry in found.entries] == [
        ("SI", "3 of 3"),
        ("EWC", "0 of 3"),
        ("Single-task", "3 of 3"),
    ]


def test_an_entry_says_which_code_made_it(tmp_path):
    def made_by(*codes: tuple[Code, ...]) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        recipes = [Recipe("si", k, num_tasks=1, code=code) for k, code in enumerate(codes)]
        comparison = _compare(*(write_run(folder, recipe) for recipe in recipes))
        return comparison.entries[0].made_by(CODE.fingerprint)

    other = Code("0.2.0", "0ther" * 8)
    assert made_by((CODE,), (CODE,)) == "current"
    assert made_by((other,)) == "older: version 0.2.0 (0ther0th)"
    assert made_by(()) == "older: version 0.1.0"
    assert made_by((other, CODE)) == "mixed: older: version 0.2.0 (0ther0th), current"
    assert made_by((CODE,), ()) == "mixed: current, older: version 0.1.0"


def test_the_same_experiment_twice_is_refused(tmp_path):
    paths = [write_run(tmp_path / part, Recipe("si", num_tasks=1)) for part in "ab"]
    with pytest.raises(UserError, match="same seed 0"):
        compare([read_run(path) for path in paths])


def test_a_torn_last_line_is_ignored_and_a_broken_one_is_named(tmp_path):
    folder = write_run(tmp_path, Recipe("si", num_tasks=2))
    file = folder / "metrics.jsonl"
    whole = file.read_text()
    file.write_text(whole[:-8])
    torn = read_run(folder)
    assert not torn.complete
    assert len(torn.evaluations) == len(
        read_run(write_run(tmp_path / "b", Recipe("si", num_tasks=2))).evaluations
    )
    file.write_text(whole.replace("\n", "\n{broken\n", 1))
    with pytest.raises(UserError, match=r"Line 2 of .*metrics\.jsonl"):
        read_run(folder)
    file.write_text('{"kind": "embeddings", "after": 0}\n{"kind": "end"}\n')
    with pytest.raises(UserError, match=r"Line 1 of .* has no 'vectors'"):
        read_run(folder)


def test_folders_are_searched_and_bad_ones_named(tmp_path):
    one = write_run(tmp_path / "runs", Recipe("si", 0, num_tasks=1))
    two = write_run(tmp_path / "runs", Recipe("si", 1, num_tasks=1))
    assert find_runs([tmp_path, one]) == [one, two]
    with pytest.raises(UserError, match="no folder"):
        find_runs([tmp_path / "nowhere"])
    (tmp_path / "bare").mkdir()
    with pytest.raises(UserError, match="holds no run"):
        find_runs([tmp_path / "bare"])
    with pytest.raises(UserError, match="is not a run"):
        read_run(tmp_path / "bare")


def _summary(root: Path) -> str:
    console = Console(file=StringIO(), width=160)
    summarise([root], console)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_summary_prints_the_returns_and_the_ranking(tmp_path):
    write_matrix(tmp_path, "hypercrl", RETURNS, random=[0.0, 0.0, 0.0])
    write_matrix(tmp_path, "single", RETURNS / 2)
    text = _summary(tmp_path)
    for part in ("240", "97", "200", "HyperCRL", "3 of 3", "Single-task, seed 0"):
        assert part in text


def test_summary_prints_the_papers_numbers_where_the_tasks_are_as_many(tmp_path):
    five = np.where(np.tri(5).T, 100.0, NAN)
    write_matrix(tmp_path / "five", "hypercrl", five)
    text = " ".join(_summary(tmp_path / "five").split())
    average = paper.RETENTION["pusher"]["hypercrl"].average
    assert f"{average[0]} ± {average[1]}" in text and "Beside the paper" in text
    write_matrix(tmp_path / "three", "hypercrl", five[:3, :3])
    assert "Beside the paper" not in _summary(tmp_path / "three")


def test_summary_without_a_reference_says_what_to_run(tmp_path):
    write_matrix(tmp_path, "si", [[0.0, -3.0], [NAN, 100.0]])
    text = _summary(tmp_path)
    for part in ("−3.0", "–", "no reference", "train pusher single", "was not measured"):
        assert part in " ".join(text.split()), part


@pytest.mark.parametrize("table", [paper.RETENTION, paper.FORWARD_TRANSFER])
def test_the_papers_averages_are_the_means_of_its_rows(table):
    for suite, rows in table.items():
        for method, row in rows.items():
            mean = np.mean([value for value, _ in row.tasks])
            # Whole per cents, and the paper averaged before rounding: its rows are up to 3 off.
            assert abs(mean - row.average[0]) <= 3.5, (suite, method)
