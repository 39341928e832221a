"""Reports on long sequences, whose older tasks were tested only at times."""

import numpy as np
import pytest

from hypercrl.analysis import metrics, palette
from hypercrl.analysis.comparison import compare
from hypercrl.analysis.lifetimes import all_seen, smooth
from hypercrl.analysis.plots import build_drawings
from hypercrl.analysis.plots.lifetime import plot_lifetime
from hypercrl.analysis.ratios import RETENTION
from hypercrl.analysis.tables import build_tables
from hypercrl.analysis.tables.lifetime import lifetime_table
from hypercrl.analysis.tables.metrics import metrics_table
from hypercrl.experiment.run_folder import read_run
from synthetic_runs import write_matrix

NUM_TASKS = 16
RANDOM = (0.0,) * NUM_TASKS


def life(kept: float) -> np.ndarray:
    """Every task is learnt to 100, an old one keeps a share; only some old ones are tested."""
    returns = np.full((NUM_TASKS, NUM_TASKS), np.nan)
    for after in range(NUM_TASKS):
        everything = after % 4 == 3
        returns[: after if everything else 1, after] = 100 * kept
        returns[after, after] = 100
    return returns


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    kept = {"si": 0.5, "finetune": 0.2, "single": 1.0}
    paths = [
        write_matrix(root, method, life(share), random=RANDOM) for method, share in kept.items()
    ]
    (found,) = compare([read_run(path) for path in paths])
    return found


def test_metrics_come_from_what_was_measured(comparison):
    entry = next(entry for entry in comparison.entries if entry.method == "si")
    (scores,) = entry.scores
    assert metrics.has_holes(scores.returns)
    assert not metrics.has_holes(np.triu(np.ones((3, 3))))
    assert scores.mean_retention == pytest.approx(0.5)
    assert scores.average_performance == pytest.approx((15 * 50 + 100) / 16)
    assert scores.normalised_performance == pytest.approx((15 * 0.5 + 1) / 16)
    assert metrics.values(scores.worst_case) == pytest.approx([0.5] * 15)
    assert metrics.forgetting(scores.returns) == pytest.approx([50.0] * 15)


def test_the_table_says_that_tests_are_missing(comparison, tmp_path):
    table = metrics_table(comparison)
    assert table is not None and "what was measured" in table.reading
    whole = write_matrix(tmp_path, "si", [[9.0, 9.0], [np.nan, 9.0]])
    (short,) = compare([read_run(whole)])
    table = metrics_table(short)
    assert table is not None and "what was measured" not in table.reading


def test_a_life_is_drawn_where_it_was_measured(comparison):
    drawing = plot_lifetime(comparison, palette.assign_colours([comparison]))
    assert drawing is not None
    everything, first, newest = (
        {tuple(np.asarray(line.get_xdata())): np.asarray(line.get_ydata()) for line in axes.lines}
        for axes in drawing.panels
    )
    assert set(everything) == {(1, 2, 4, 8, 12, 16)}
    assert set(first) == set(newest) == {tuple(range(1, 17))}
    assert newest[tuple(range(1, 17))] == pytest.approx(np.ones(16))
    assert len(drawing.panels[0].lines) == 2  # `single` is what returns are normalised by


def test_a_life_is_tabulated_where_it_was_measured(comparison, tmp_path):
    table = lifetime_table(comparison)
    assert table is not None
    times = [f"After {count} tasks" for count in (4, 8, 12, 16)]
    assert list(table.columns) == [*times, "The first, at the end", "Just learnt"]
    rows = {name: [cell.rank for cell in cells] for name, cells in table.rows}
    # The newest of k tasks is whole, the others have half of it.
    halves = [(0.5 * (count - 1) + 1) / count for count in (4, 8, 12, 16)]
    assert rows["SI"] == pytest.approx([*halves, 0.5, 1.0])
    short = write_matrix(tmp_path, "si", [[9.0, 9.0], [np.nan, 9.0]])
    assert lifetime_table(compare([read_run(short)])[0]) is None


def test_a_life_has_one_ruler(tmp_path):
    """A task that `single` has failed to learn says nothing, and makes nobody else a giant."""
    alone, ours = life(1.0), life(0.5)
    alone[2, 2:] = 0.1
    paths = [
        write_matrix(tmp_path, m, r, random=RANDOM) for m, r in [("single", alone), ("si", ours)]
    ]
    (found,) = compare([read_run(path) for path in paths])
    table = lifetime_table(found)
    assert table is not None
    ruler = (15 * 100 + 0.1) / 16
    rows = {name: [cell.rank for cell in cells] for name, cells in table.rows}
    assert rows["SI"][-3:] == pytest.approx([(15 * 50 + 100) / 16 / ruler, 50 / ruler, 100 / ruler])


def test_noise_is_smoothed_and_holes_stay():
    curve = np.full(40, 1.0)
    curve[10], curve[20] = 6.0, np.nan
    smoothed = smooth(curve)
    assert np.isnan(smoothed[20])
    assert smoothed[8:13] == pytest.approx([2.0] * 5)
    assert smoothed[[0, 7, 13, 19, 39]] == pytest.approx([1.0] * 5)
    assert smooth(np.array([1.0, 5.0, 2.0])).tolist() == [1.0, 5.0, 2.0]  # too short to smooth


def test_the_average_over_all_tasks_seen_needs_them_all():
    matrix = np.array([[1.0, np.nan, 3.0], [np.nan, 4.0, 4.0], [np.nan, np.nan, 5.0]])
    assert all_seen(matrix) == pytest.approx([1.0, np.nan, 4.0], nan_ok=True)


def test_many_tasks_are_not_drawn_one_by_one(comparison):
    drawings = build_drawings(comparison, palette.assign_colours([comparison]))
    panels = {drawing.title: len(drawing.panels) for drawing in drawings}
    assert panels["Learning curves"] == 6  # five tasks and the average
    assert panels[RETENTION.title] == 1
    heat = next(drawing for drawing in drawings if drawing.title == "Returns r[i, j]")
    assert len(heat.panels[0].get_xticks()) == 8 and not heat.panels[0].texts
    assert build_tables(comparison)
