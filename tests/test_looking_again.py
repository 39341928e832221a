"""What `hypercrl test` and `hypercrl conflict` find out about a run that is finished."""

import numpy as np
import pytest

import tiny
from hypercrl.cli import main
from hypercrl.experiment.conflict import measure
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.records import METRICS, Evaluation, from_line
from hypercrl.training import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run whose two tasks push in opposite directions, each learnt well by its own model."""
    folder = tmp_path_factory.mktemp("runs") / "single"
    with tiny.registered():
        config = tiny.configure(method="single", updates=300, steps_per_task=60)
        run(config, folder, Silent())
        yield folder


def read_tests(path) -> list[Evaluation]:
    found = [from_line(METRICS, line) for line in path.read_text().splitlines()]
    assert all(isinstance(test, Evaluation) for test in found)
    return found  # pyright: ignore[reportReturnType]


def test_more_episodes_of_a_finished_run(finished, tmp_path, capsys):
    records = tmp_path / "tests.jsonl"
    main(["test", str(finished), "--episodes", "3", "--out", str(records)])
    found = read_tests(records)
    assert [(test.task, test.after, test.phase) for test in found] == [
        (0, 0, "final"),
        (1, 1, "final"),
    ]
    assert all(len(test.returns) == 3 for test in found)
    assert f"return {found[1].mean:.2f}" in capsys.readouterr().out


def test_one_task_again_gives_the_same_numbers(finished, tmp_path):
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    main(["test", str(finished), "--task", "2", "--episodes", "2", "--out", str(few)])
    name = load(finished).tasks[1]
    main(["test", str(finished), "--task", name, "--episodes", "4", "--out", str(many)])
    (few,), (many,) = (read_tests(path) for path in (few, many))
    assert many.returns[:2] == few.returns
    assert (many.one_step, many.h_step) == (few.one_step, few.h_step)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--task", "3"], "has learnt the tasks 1 to 2 and not task 3"),
        (["--task", "-1"], "has learnt the tasks 1 to 2 and not task -1"),
        (["--task", "0"], "has learnt the tasks 1 to 2 and not task 0"),
        (["--task", "nobody"], "No task called 'nobody' has been learnt"),
        (["--episodes", "0"], "--episodes must be at least 1"),
        (["--out", "{folder}/nowhere/tests.jsonl"], "cannot be written"),
    ],
)
def test_what_cannot_be_tested_is_told(finished, tmp_path, capsys, flags, told):
    with pytest.raises(SystemExit) as stop:
        main(["test", str(finished), *(flag.format(folder=tmp_path) for flag in flags)])
    assert stop.value.code == 2
    assert told in capsys.readouterr().err


def test_conflicting_tasks_show_in_the_model_errors(finished):
    errors = measure([finished], num_episodes=1).errors
    own, other = np.diag(errors), errors[[0, 1], [1, 0]]
    assert (other > 2 * own).all()


def test_conflict_prints_both_tables(finished, capsys):
    main(["conflict", str(finished), "--episodes", "1"])
    told = capsys.readouterr().out
    assert "One-step model error" in told
    assert told.count("| gain 1 |") == 4  # a column and a row in each table
    assert told.count("**") == 8  # a task's own model, twice two
