"""Reports in which a comparison could flatter, read as a reader sees them."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypercrl.analysis.comparison import Comparison, compare
from hypercrl.analysis.highlights import find_highlights
from hypercrl.analysis.report import write_report
from hypercrl.analysis.table_formats import Table
from hypercrl.analysis.tables import build_tables
from hypercrl.analysis.tables.runs import describe_reference
from hypercrl.experiment.run_folder import find_runs, read_run
from synthetic_runs import CODE, PENDULUM, Recipe, write_matrix, write_run, write_runs

SEEDS = (0, 1, 2)
ICEM = {"num_samples": 128, "horizon": 20, "num_elites": 16, "num_kept": 5, "noise_beta": 2.5}
ICEM |= {"num_iterations": 3, "momentum": 0.1, "init_std": 1.0}
CEM = {"num_samples": 500, "horizon": 25, "num_elites": 40, "num_iterations": 5, "init_std": 0.5}
CEM |= {"final_round": True}


def write_one_of_three(root: Path) -> None:
    """Somebody learns one door of three and improves on it later; others learn all and forget."""
    for seed in SEEDS:
        for recipe in (
            Recipe("hypercrl", seed, keep=1.06, fails=(1, 2)),
            Recipe("si", seed),
            Recipe("ewc", seed),
            Recipe("single", seed),
        ):
            write_run(root, replace(recipe, suite="door", num_tasks=3))


def write_negative(root: Path) -> None:
    """A pendulum earns −1,200 by random actions and −150 when it has learnt to stand."""
    methods = ["hypercrl", "coreset", "finetune", "single"]
    write_runs(root, methods, SEEDS, ("pendulum",), num_tasks=3, levels=PENDULUM)


def write_two_planners(root: Path) -> None:
    for method in ("hypercrl", "single"):
        for seed in SEEDS:
            base = Recipe(method, seed, num_tasks=3)
            write_run(root, replace(base, planner="icem", planning=ICEM))
            write_run(root, replace(base, planner="cem", planning=CEM, skill=0.8))


def write_ablated_single(root: Path) -> None:
    """Beside `single` the same with a tenth of the updates, which learns half as much."""
    write_runs(root, ["hypercrl", "ewc", "single"], SEEDS, num_tasks=3)
    for seed in SEEDS:
        write_run(root / "short", Recipe("single", seed, num_tasks=3, updates=50, skill=0.5))


def _compare(root: Path) -> Comparison:
    (comparison,) = compare([read_run(path) for path in find_runs([root])], CODE.fingerprint)
    return comparison


def _tables(comparison: Comparison) -> dict[str, Table]:
    return {table.name: table for table in build_tables(comparison)}


def _table(comparison: Comparison, name: str) -> dict[str, dict[str, str]]:
    """A table by row and column, as its CSV file has it."""
    table = _tables(comparison)[name]
    rows = list(csv.DictReader(table.to_csv().splitlines()))
    return {row[table.corner]: row for row in rows}


def test_who_learnt_one_task_of_three_does_not_win_by_retention(tmp_path):
    write_one_of_three(tmp_path)
    comparison = _compare(tmp_path)
    labels = [entry.label for entry in comparison.entries]
    assert labels == ["SI", "EWC", "HyperCRL", "Single-task"]
    ranking = _table(comparison, "ranking")
    assert float(ranking["HyperCRL"]["Retention, % average"]) > 1.1
    assert ranking["HyperCRL"]["Tasks learnt"] == "1 of 3"
    assert ranking["SI"]["Tasks learnt"] == "3 of 3"
    assert float(ranking["HyperCRL"]["Normalised return, % mean"]) == pytest.approx(0.38, abs=0.02)
    tables = _tables(comparison)
    retention = dict(tables["retention"].rows)
    assert retention["HyperCRL"][0].text == "1 of 3"
    assert retention["HyperCRL"][2].text == "–"
    assert retention["HyperCRL"][2].note.startswith("not learnt: ")
    assert not any(cell.best for cells in retention.values() for cell in cells)
    best = {
        column: [label for label, cells in tables["ranking"].rows if cells[k].best]
        for k, column in enumerate(tables["ranking"].columns)
    }
    assert best["Normalised return, %"] == ["SI"]
    assert best["Retention, %"] == []
    cards = find_highlights(comparison)
    assert cards[0].title == "Highest normalised return at the end"
    assert cards[0].label == "SI"
    assert cards[0].aside.startswith("3 of 3 tasks learnt")
    assert not any(card.label == "HyperCRL" for card in cards)


def test_a_suite_with_negative_returns_has_retention_and_transfer(tmp_path):
    write_negative(tmp_path)
    comparison = _compare(tmp_path)
    assert all(entry.final_return < 0 for entry in comparison.entries)
    ranking = _table(comparison, "ranking")
    assert list(ranking) == ["HyperCRL", "Coreset", "Fine-tuning", "Single-task"]
    expected = {"HyperCRL": (1.0, 1.0), "Coreset": (0.66, 0.77), "Fine-tuning": (0.05, 0.37)}
    for label, (kept, end) in expected.items():
        row = ranking[label]
        assert float(row["Retention, % average"]) == pytest.approx(kept, abs=0.06)
        assert float(row["Normalised return, % mean"]) == pytest.approx(end, abs=0.06)
        assert float(row["Forward transfer, % mean"]) == pytest.approx(1.0, abs=0.06)
        assert row["Tasks learnt"] == "3 of 3"
    # The paper's plain ratio has nothing to say here, and says so.
    plain = _tables(comparison)["retention-plain"]
    assert {cells[-1].text for _, cells in plain.rows} == {"–"}
    random = _table(comparison, "returns")["Random actions"]
    assert float(random["Average mean"]) == pytest.approx(PENDULUM[0], abs=3)


def test_two_planners_are_told_apart_by_their_names(tmp_path):
    write_two_planners(tmp_path)
    comparison = _compare(tmp_path)
    labels = [entry.label for entry in comparison.entries]
    # With two references, what counts is the plain return, and the reader is told.
    assert labels == [
        "HyperCRL (icem)",
        "HyperCRL (cem)",
        "Single-task (icem)",
        "Single-task (cem)",
    ]
    assert "no reference that all share" in _tables(comparison)["ranking"].reading
    assert find_highlights(comparison)[0].title == "Highest return at the end"
    page = write_report([tmp_path], tmp_path / "out").read_text()
    assert 'data-table="pusher-laptop-settings"' in page
    settings = _table(comparison, "settings")
    assert len(settings) == 10
    assert settings["planning.num_samples"]["HyperCRL (cem)"] == "500"
    assert settings["planning.final_round"]["HyperCRL (icem)"] == "–"
    # Each is measured with its own planner's reference, so both reach it.
    for entry in comparison.competitors:
        planner = entry.runs[0].config.planner
        assert {run.config.planner for run in entry.yardstick.runs} == {planner}
        assert entry.normalised == pytest.approx(1.0, abs=0.06)
        assert describe_reference(comparison, entry) == f"Single-task ({planner}), seeds 0, 1, 2"


def test_an_ablation_of_single_does_not_move_the_ruler(tmp_path):
    write_ablated_single(tmp_path)
    comparison = _compare(tmp_path)
    full, short = "Single-task (updates 500)", "Single-task (updates 50)"
    assert {entry.label for entry in comparison.entries} == {"HyperCRL", "EWC", full, short}
    for entry in comparison.competitors:
        assert entry.yardstick.single == pytest.approx([310] * 3, rel=0.05)
        assert describe_reference(comparison, entry) == f"{full}, seeds 0, 1, 2"
    runs = {label: cells[-1].text for label, cells in _tables(comparison)["runs"].rows}
    assert runs[full] == "is one"
    assert runs[short].startswith("is none")
    ranking = _table(comparison, "ranking")
    assert float(ranking["HyperCRL"]["Normalised return, % mean"]) == pytest.approx(1.0, abs=0.05)
    # Measured with itself, it would be as good as anybody.
    assert ranking[short]["Normalised return, % mean"] == ""


def test_a_tuned_batch_does_not_cost_a_method_its_reference(tmp_path):
    """And it is measured with the batch that most methods have, not with its own."""
    returns = [[100.0, 100.0], [np.nan, 100.0]]
    for method, size, reached in (
        ("si", 100, 50.0), ("ewc", 100, 50.0), ("coreset", 200, 50.0),
        ("single", 100, 100.0), ("single", 200, 80.0),
    ):  # fmt: skip
        learner = {"training": {"batch_size": size}}
        options = {"random": [0.0, 0.0], "learner": learner, "name": f"{method}-{size}"}
        write_matrix(tmp_path, method, np.array(returns) * reached / 100, **options)
    comparison = _compare(tmp_path)
    assert {e.method: e.normalised for e in comparison.competitors} == pytest.approx(
        dict.fromkeys(("si", "ewc", "coreset"), 0.5)
    )


def test_records_without_random_policy_code_or_peak_still_make_a_report(tmp_path):
    old = Recipe("si", num_tasks=2, knows_random=False, code=())
    write_run(tmp_path / "runs", old)
    write_run(tmp_path / "runs", replace(old, method="single"))
    comparison = _compare(tmp_path / "runs")
    cells = dict(_tables(comparison)["ranking"].rows)["SI"]
    assert (cells[0].text, cells[0].note) == ("–", "random unknown")
    ranking = _table(comparison, "ranking")["SI"]
    assert float(ranking["Retention, % average"]) == pytest.approx(0.9, abs=0.1)
    assert float(ranking["Forward transfer, % mean"]) == pytest.approx(1.0, abs=0.1)
    assert _table(comparison, "cost")["SI"]["Peak while learning"] == ""
    errors = _table(comparison, "model-error")["SI"]
    assert errors["Transitions"] == "own: not comparable"
    assert "Lowest model error at the end" not in [c.title for c in find_highlights(comparison)]
    page = write_report([tmp_path / "runs"], tmp_path / "out", current=CODE.fingerprint).read_text()
    assert "older: version 0.1.0" in page
    assert re.search(r"random\s+actions\s+earn\s+was\s+not\s+measured", page)
