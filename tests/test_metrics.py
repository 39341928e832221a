"""Metric definitions on matrices worked out by hand, and the reading of run folders."""

import json
import math
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from hypercrl.analysis import metrics, paper
from hypercrl.analysis.comparison import compare
from hypercrl.analysis.summary import summarise
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import find_runs, read_run
from synthetic_runs import Recipe, write_matrix, write_run, write_runs

NAN = math.nan
RETURNS = np.array([[200.0, 240.0, 150.0], [NAN, 100.0, 120.0], [NAN, NAN, 300.0]])
SCALE = np.array([240.0, 120.0, 300.0])


def test_retention_is_the_last_return_over_the_own():
    assert metrics.values(metrics.retention(RETURNS, SCALE)) == pytest.approx([0.75, 1.2])


def test_forward_transfer_divides_by_the_reference_from_the_second_task_on():
    reference = np.array([999.0, 80.0, 400.0])
    ratios = metrics.forward_transfer(RETURNS, reference, SCALE)
    assert metrics.values(ratios) == pytest.approx([1.25, 0.75])


def test_differences_of_returns():
    assert metrics.average_performance(RETURNS) == pytest.approx((150 + 120 + 300) / 3)
    assert metrics.forgetting(RETURNS) == pytest.approx([90.0, -20.0])
    assert metrics.backward_transfer(RETURNS) == pytest.approx([-50.0, 20.0])


@pytest.mark.parametrize("denominator", [0.0, -40.0, 5.0, NAN])
def test_a_ratio_over_nothing_is_undefined_and_keeps_its_returns(denominator):
    result = metrics.ratio(300.0, denominator, scale=310.0)
    assert result.value is None
    assert result.numerator == 300.0
    assert result.denominator == pytest.approx(denominator, nan_ok=True)


def test_a_negative_numerator_over_a_sound_denominator_is_defined():
    assert metrics.ratio(-30.0, 300.0, scale=310.0).value == pytest.approx(-0.1)


def test_undefined_ratios_do_not_enter_the_average():
    returns = np.array([[0.0, 0.0, 200.0], [NAN, 100.0, 50.0], [NAN, NAN, 300.0]])
    found = metrics.values(metrics.retention(returns, np.array([200.0, 100.0, 300.0])))
    assert math.isnan(found[0])
    assert metrics.mean_of_defined(found) == pytest.approx(0.5)
    assert math.isnan(metrics.mean_of_defined(np.array([NAN, NAN])))


def test_an_unfinished_run_has_no_retention_yet(tmp_path):
    returns = RETURNS.copy()
    returns[:, 2] = NAN
    run = read_run(write_matrix(tmp_path, "si", returns))
    found = metrics.retention(metrics.returns_matrix(run), SCALE)
    assert [r.value for r in found] == [None, None]
    assert found[0].denominator == 200.0
    assert math.isnan(metrics.average_performance(metrics.returns_matrix(run)))


def test_the_matrix_holds_final_evaluations_only(tmp_path):
    run = read_run(write_run(tmp_path, Recipe("si", num_tasks=3)))
    found = metrics.returns_matrix(run)
    assert np.isfinite(found[np.triu_indices(3)]).all()
    assert np.isnan(found[np.tril_indices(3, -1)]).all()
    last = [e for e in run.evaluations if e.phase == "final" and e.task == 1 and e.after == 2]
    assert found[1, 2] == pytest.approx(np.mean(last[0].returns))


def _evaluation(task, after, phase, step, value, **more):
    record = {"kind": "evaluation", "task": task, "after": after, "phase": phase, "step": step}
    record |= {"total_step": 0, "returns": [value - 1, value + 1], "successes": None}
    return record | {"one_step": None, "h_step": None} | more


def _run_with(tmp_path, records, num_tasks=2):
    folder = write_run(tmp_path, Recipe("si", num_tasks=num_tasks, stop_after=0))
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines)
    return read_run(folder)


def test_worst_case_sees_a_dip_in_the_middle_of_a_later_task(tmp_path):
    run = _run_with(
        tmp_path,
        [
            _evaluation(0, 0, "training", 100, 10.0),  # its own training does not count
            _evaluation(0, 0, "final", 200, 200.0),
            _evaluation(0, 1, "training", 100, 50.0),
            _evaluation(0, 1, "final", 200, 180.0),
            _evaluation(1, 1, "final", 200, 100.0),
        ],
    )
    scale = metrics.task_scales([run])
    assert scale == pytest.approx([200.0, 100.0])
    assert metrics.values(metrics.worst_case(run, scale)) == pytest.approx([0.25])
    assert metrics.values(metrics.retention(metrics.returns_matrix(run), scale)) == pytest.approx(
        [0.9]
    )


def test_learning_area_is_the_mean_height_from_the_zero_shot_return_on(tmp_path):
    run = _run_with(
        tmp_path,
        [
            _evaluation(0, 0, "training", 100, 100.0),
            _evaluation(0, 0, "final", 200, 200.0),
            _evaluation(1, 0, "zero_shot", 0, 40.0),
            _evaluation(1, 1, "training", 100, 80.0),
            _evaluation(1, 1, "final", 200, 100.0),
        ],
    )
    assert metrics.zero_shot(run) == pytest.approx([40.0])
    areas = metrics.learning_area(run, np.array([200.0, 100.0]), np.array([200.0, 100.0]))
    assert metrics.values(areas) == pytest.approx([150 / 200, (60 + 90) / 2 / 100])


def test_learning_area_falls_back_on_episodes(tmp_path):
    episodes = [
        {"kind": "episode", "task": 0, "episode": k, "step": s, "total_step": s, "return": r}
        | {"random": random}
        for k, (s, r, random) in enumerate([(0, 900.0, True), (100, 10.0, False), (300, 30, False)])
    ]
    run = _run_with(tmp_path, [*episodes, _evaluation(0, 0, "final", 300, 30.0)], num_tasks=1)
    areas = metrics.learning_area(run, np.array([40.0]), np.array([40.0]))
    assert metrics.values(areas) == pytest.approx([0.5])
    assert math.isnan(metrics.learning_area(_empty(tmp_path), np.ones(1), np.ones(1))[0].numerator)


def _empty(tmp_path):
    return read_run(write_run(tmp_path, Recipe("ewc", num_tasks=1, stop_after=0)))


def test_model_errors_and_successes_keep_their_place_in_the_matrix(tmp_path):
    records = [
        _evaluation(0, 0, "final", 9, 1.0, one_step=0.1, h_step=0.5, successes=[True, False]),
        _evaluation(0, 1, "final", 9, 1.0, one_step=0.2),
    ]
    run = _run_with(tmp_path, records)
    assert metrics.error_matrix(run, "one_step")[0] == pytest.approx([0.1, 0.2])
    assert metrics.error_matrix(run, "h_step")[0] == pytest.approx([0.5, NAN], nan_ok=True)
    assert metrics.success_matrix(run)[0] == pytest.approx([0.5, NAN], nan_ok=True)


def test_cost_counts_old_transitions_and_state_per_task(tmp_path):
    run = read_run(write_run(tmp_path, Recipe("coreset", num_tasks=2)))
    kept = metrics.bytes_kept(run)
    assert kept == pytest.approx([8_040 + 40 * 88, 2 * 8_040 + 2 * 40 * 88])
    seconds = metrics.seconds_per_session(run)
    assert seconds == pytest.approx([0.5, 0.65], rel=0.05)


def test_the_reference_is_the_mean_over_its_seeds_and_ignores_missing_ones(tmp_path):
    half = RETURNS.copy()
    half[:, 2] = NAN
    half[0, 0] = 100.0
    paths = [
        write_matrix(tmp_path, "single", RETURNS, seed=0),
        write_matrix(tmp_path, "single", half, seed=1),
        write_matrix(tmp_path, "si", 2 * RETURNS, seed=0),
    ]
    (found,) = compare([read_run(path) for path in paths])
    assert found.reference == pytest.approx([150.0, 100.0, 300.0])
    entry = next(e for e in found.entries if e.method == "si")
    assert metrics.values(entry.scores[0].forward_transfer) == pytest.approx([2.0, 2.0])


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
    assert [(e.label, e.seeds) for e in groups[0].entries] == [
        ("SI (c None, learning_rate 0.001)", (0, 1)),
        ("SI (c 0.5, learning_rate None)", (0,)),
        ("EWC", (0, 1)),
    ]


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
    file.write_text('{"kind": "cost", "task": 0}\n{"kind": "end"}\n')
    with pytest.raises(UserError, match=r"Line 1 of .* has no 'parameters'"):
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
    with pytest.raises(UserError, match="not a run folder"):
        read_run(tmp_path / "bare")


def test_summary_prints_matrix_retention_and_forward_transfer(tmp_path):
    write_matrix(tmp_path, "hypercrl", RETURNS)
    write_matrix(tmp_path, "single", RETURNS / 2)
    console = Console(file=StringIO(), width=120)
    summarise([tmp_path], console)
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    for part in ("200", "240", "98 %", "200 %", "HyperCRL", "seed 0"):
        assert part in text


def test_summary_without_a_reference_says_what_is_missing(tmp_path):
    write_matrix(tmp_path, "si", [[0.0, -3.0], [NAN, 100.0]])
    console = Console(file=StringIO(), width=120)
    summarise([tmp_path], console)
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "−3.0" in text
    assert "–" in text
    assert "'single'" in text


@pytest.mark.parametrize("table", [paper.RETENTION, paper.FORWARD_TRANSFER])
def test_the_papers_averages_are_the_means_of_its_rows(table):
    for suite, rows in table.items():
        for method, row in rows.items():
            mean = np.mean([value for value, _ in row.tasks])
            # Whole per cents, and the paper averaged before rounding: its rows are up to 3 off.
            assert abs(mean - row.average[0]) <= 3.5, (suite, method)
