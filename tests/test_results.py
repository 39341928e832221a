"""Results in Python, callbacks and displays of a run, and runs that a file describes."""

import json

import numpy as np
import pytest

import hypercrl
import tiny
from hypercrl.cli import main
from hypercrl.errors import UserError
from hypercrl.experiment.display import Pace, Silent
from hypercrl.experiment.records import Episode, Evaluation, Session
from hypercrl.experiment.run_folder import read_config, read_run
from hypercrl.sweep.job import Job
from hypercrl.sweep.session import Shared
from synthetic_runs import write_matrix, write_runs

RETURNS = [[100.0, 60.0], [np.nan, 80.0]]  # r[i, j]; random actions earn 0


def test_a_run_is_read_as_plain_arrays(tmp_path):
    found = hypercrl.read(write_matrix(tmp_path, "finetune", RETURNS, random=[0.0, 0.0]))
    np.testing.assert_array_equal(found.returns, RETURNS)
    np.testing.assert_array_equal(found.random, [0.0, 0.0])
    np.testing.assert_allclose(found.retention, [0.6])
    assert found.metrics["return"] == pytest.approx(70.0)
    assert found.metrics["retention"] == pytest.approx(0.6)
    assert found.metrics["forgetting"] == pytest.approx(40.0)
    assert np.isnan(found.metrics["normalised"])  # there is no `single` beside it
    assert len(found.tasks) == 2


def test_curves_are_those_of_the_records(tmp_path):
    (path,) = write_runs(tmp_path, ["ewc"], [0])
    found, run = hypercrl.read(path), read_run(path)
    curve, losses = found.curve(1), found.loss_curve(1)
    episodes = [e for e in run.episodes if e.task == 1 and not e.random]
    assert curve.steps.tolist() == [e.step for e in episodes]
    assert curve.values.tolist() == [e.total for e in episodes]
    assert losses.values.tolist() == [s.validation for s in run.sessions if s.task == 1]
    assert found.complete


def test_runs_are_compared_as_the_rows_of_a_table(tmp_path):
    write_runs(tmp_path, ["finetune", "hypercrl", "single"], [0, 1])
    rows = hypercrl.compare(tmp_path)
    assert len(rows) == 6 and len({row["folder"] for row in rows}) == 6
    assert [row["method"] for row in rows[::2]] == ["hypercrl", "finetune", "single"]
    assert rows[0]["retention"] > 0.9 > rows[2]["retention"]
    assert np.isfinite(rows[0]["normalised"])  # against the `single` runs
    assert all(row.keys() == rows[0].keys() for row in rows)


def test_a_run_that_cannot_be_read_is_left_out_of_a_comparison(tmp_path):
    broken, _ = write_runs(tmp_path, ["finetune", "hypercrl"], [0])
    (broken / "config.json").write_text("{")
    with pytest.warns(UserWarning, match="finetune"):
        (row,) = hypercrl.compare(tmp_path)
    assert row["method"] == "hypercrl"


class Told(Silent):
    """A display of one's own."""

    def __init__(self):
        self.returns, self.closed = [], False

    def test(self, task, after, mean_return):
        self.returns.append(mean_return)

    def close(self):
        self.closed = True


SHORT = {"steps_per_task": 6, "eval_every": 0, "random_episodes": 1, "eval_episodes": 1}


def test_callbacks_see_every_record_and_a_display_everything(tmp_path):
    seen, display = [], Told()
    with tiny.registered():
        run = hypercrl.train(
            "tiny",
            "finetune",
            schedule=SHORT,
            out=tmp_path,
            callbacks=[seen.append],
            display=display,
        )
    found = read_run(run)
    assert [r for r in seen if isinstance(r, Episode)] == list(found.episodes)
    sessions = [r.step for r in seen if isinstance(r, Session)]
    assert sessions == [session.step for session in found.sessions]
    finals = [r for r in seen if isinstance(r, Evaluation)]
    assert finals == list(found.evaluations)
    assert display.returns == [r.mean for r in finals] and display.closed


class EnoughError(Exception):
    """What a callback may raise."""


def test_a_callback_may_end_a_run_which_then_goes_on(tmp_path):
    def stop(record):
        if isinstance(record, Evaluation):
            raise EnoughError

    with tiny.registered():
        with pytest.raises(UserError, match="EnoughError"):
            hypercrl.train("tiny", "finetune", schedule=SHORT, out=tmp_path, callbacks=[stop])
        assert not read_run(tmp_path).complete
        hypercrl.train("tiny", "finetune", schedule=SHORT, out=tmp_path)
    assert read_run(tmp_path).complete


def test_a_display_can_be_asked_for(tmp_path, capsys):
    with tiny.registered():
        hypercrl.train("tiny", "finetune", schedule=SHORT, out=tmp_path, display=True)
    assert "tiny finetune seed 0 | finished" in capsys.readouterr().out


def test_a_file_describes_a_run_and_flags_change_it(tmp_path):
    file, first, second = tmp_path / "run.yaml", tmp_path / "first", tmp_path / "second"
    settings = {f"schedule.{name}": value for name, value in SHORT.items()}
    file.write_text(json.dumps({"suite": "tiny", "method": "finetune", "set": settings}))
    with tiny.registered():
        main(["train", "--config", str(file), "--out", str(first), "--seed", "3"])
        config = read_config(first)
        assert (config.suite, config.method, config.seed) == ("tiny", "finetune", 3)
        assert config.schedule["steps_per_task"] == 6
        # Any run's own configuration does as well.
        main(["train", "--config", str(first / "config.json"), "--out", str(second), "--updates=2"])
    again = read_config(second)
    assert again.seed == 3 and again.schedule == {**config.schedule, "updates": 2}


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("suite: tiny\nmethod: [finetune, single]\n", [], "describes 2 runs"),
        ("suite: tiny\n", ["--planner", "nobody"], "no planner called 'nobody'"),
        ("- tiny\n", [], "must map names"),
    ],
)
def test_a_file_that_describes_no_run_is_told(tmp_path, capsys, text, flags, message):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with tiny.registered(), pytest.raises(SystemExit) as stop:
        main(["train", "--config", str(file), *flags])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_whole_configuration_is_not_changed_in_its_parts(tmp_path, capsys):
    (path,) = write_runs(tmp_path, ["ewc"], [0])
    with pytest.raises(SystemExit):
        main(["train", "--config", str(path / "config.json"), "--planner", "cem"])
    assert "fixes the run's 'planner'" in capsys.readouterr().err


def test_every_job_of_a_sweep_is_told_of_weights_and_biases(tmp_path):
    (path,) = write_runs(tmp_path, ["ewc"], [0])
    shared = Shared("runs", wandb=True)
    assert Job("one", read_config(path), **vars(shared)).wandb


def test_a_sweep_says_at_once_that_weights_and_biases_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with tiny.registered(), pytest.raises(SystemExit):
        main(["sweep", "--suite=tiny", "--method=ewc", "--wandb", f"--out={tmp_path / 'out'}"])
    assert "Weights & Biases is not installed" in capsys.readouterr().err


def test_nobody_is_told_that_nothing_is_left_while_tests_are():
    with tiny.registered():
        pace = Pace(tiny.configure())
    pace.at(1, tiny.PRESET.schedule.steps_per_task)
    assert pace.left == "only tests"
