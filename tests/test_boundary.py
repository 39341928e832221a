"""The boundary: whatever is raised, by whomever, ends in one sentence and costs nothing saved."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import tiny
from hypercrl import cli, train
from hypercrl.cli import main
from hypercrl.errors import UserError, advise_sweep, boundary, in_one_sentence, printable
from hypercrl.experiment import checkpoint
from hypercrl.experiment.config import change, resolve
from hypercrl.experiment.display import Silent
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.run_folder import CHECKPOINT, read_config
from hypercrl.sweep.plan import plan_runs, read_selections
from hypercrl.training import require_name, run

TRAIN = ("train", "tiny", "finetune")


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(tiny.configure(), folder, Silent())
    return folder


def status_of(*args) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(arg) for arg in args])
    return int(stop.value.code or 0)


# Sentences


class OddError(Exception):
    def __str__(self):
        return "first \x1b[2J line.\nsecond line"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UserError("It is late."), "It is late."),
        (OddError(), r"OddError: first \x1b[2J line (test_boundary.py, line "),
        (ValueError(), "ValueError: no reason given ("),
        (MemoryError("Unable to allocate 7 EiB"), "There is not enough memory for this ("),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes"), "There is not enough memory"),
    ],
)
def test_any_exception_has_a_sentence(error, told):
    with pytest.raises(UserError) as raised, boundary():
        raise error
    sentence = str(raised.value)
    assert sentence.startswith(told)
    assert sentence.isprintable() and sentence.endswith(".")
    assert in_one_sentence(raised.value) == sentence


def test_code_of_others_may_not_end_the_program():
    told = pytest.raises(UserError, match="The plugin failed with SystemExit: 3")
    with told, boundary("The plugin", exits=True):
        sys.exit(3)
    with pytest.raises(SystemExit), boundary("Ours"):
        sys.exit(0)
    with pytest.raises(KeyboardInterrupt), boundary("Anything", exits=True):
        raise KeyboardInterrupt


def test_advice_suits_who_gets_it():
    assert "--fresh" not in advise_sweep("It is damaged; start over with --fresh.")


def test_debug_shows_the_traceback(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_dispatch", lambda args: args["no such place"])
    assert status_of("list") == 1
    told = capsys.readouterr().err
    assert told.startswith("hypercrl: TypeError: ") and told.count("\n") == 1
    assert "Add --debug to see where" in told
    assert status_of("list", "--debug") == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["\udcff", "\x1b]0;gone\x07", "naïve – ✓", "\u202e"])
def test_any_terminal_can_show_any_name(monkeypatch, tmp_path, name):
    """Also one that knows ASCII alone."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    assert status_of("train", name, "finetune") == 2
    assert status_of("report", tmp_path / name) == 2
    streams[1].flush()
    told = streams[1].buffer.getvalue().decode("ascii")
    assert told.count("\n") == 2 and "\x1b" not in told
    assert printable(name).encode("ascii", "backslashreplace").decode() in told


# Signals

PATIENCE = 120  # seconds that a stopped command may take at most

STOPPING = """
import atexit, os, signal, time
from hypercrl import cli

def again():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)

def linger():
    try:
        again()
    except KeyboardInterrupt:
        time.sleep(9999)

def work(args):
    try:
        os.kill(os.getpid(), signal.SIG{first})
        time.sleep(9)
    finally:
        {then}

cli._dispatch = work
cli.main([])
"""


@pytest.mark.parametrize(
    ("first", "then", "status"),
    [
        ("TERM", "pass", 143),
        ("INT", "pass", 130),
        ("INT", "again()", 130),
        ("INT", "linger()", 130),
        ("INT", "atexit.register(again)", 130),
    ],
)
def test_a_stopped_command_says_so_once(first, then, status):
    code = STOPPING.format(first=first, then=then)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == status
    assert done.stderr == "hypercrl: stopped; the same command takes up a run again.\n"


# The Python interface


def test_numbers_of_numpy_are_numbers(tmp_path, unchecked):
    schedule = {"updates": np.int64(2), "steps_per_task": np.int32(6), "eval_every": 0}
    learner = {"learning_rate": np.float32(0.5), "network.hidden": np.array([5])}
    folder = train(
        "tiny",
        "finetune",
        seed=np.int64(3),  # pyright: ignore[reportArgumentType]
        num_tasks=np.int64(1),  # pyright: ignore[reportArgumentType]
        out=tmp_path,
        schedule=schedule,
        learner=learner,
    )
    config = read_config(folder)
    assert (config.seed, config.num_tasks, config.schedule["updates"]) == (3, 1, 2)
    assert config.learner["learning_rate"] == 0.5
    assert config.learner["network"]["hidden"] == [5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": "first"},
        {"seed": 1.5},
        {"num_tasks": "two"},
        {"schedule": 5},
        {"schedule": {"updates": "many"}},
        {"schedule": {3: 4}},
        {"learner": {"network.hidden": [None]}},
        {"method": "hypercrl", "learner": {"hypernet.hidden": []}},
        {"learner": {"network": None}},
        {"planning": {"horizon": 10**30}},
        {"preset": 3},
        {"planner": b"icem"},
        {"suite": None},
        {"out": 3},
        {"checkpoint_seconds": "often"},
    ],
    ids=str,
)
def test_what_python_hands_in_wrongly_is_told(tmp_path, wrong, unchecked):
    with pytest.raises(UserError) as raised:
        train(**{"suite": "tiny", "method": "finetune", "out": tmp_path / "run", **wrong})
    assert str(raised.value).isprintable()


def test_a_network_without_hidden_layers_is_linear(tmp_path):
    """An empty list is as good as any, also where tasks share all but their output layer."""
    train("tiny", "finetune", num_tasks=1, out=tmp_path, learner={"network.hidden": []})
    assert read_progress(tmp_path).finished


# Starting over


@pytest.mark.parametrize(
    "flags",
    [
        ("--steps-per-task", "1000000000000002"),
        ("--planning.num-samples", "1000000000000"),
        ("--learner.training.batch-size", "1000000000000"),
        ("--learner.network.hidden", "1000000", "1000000"),
    ],
    ids=lambda flags: flags[0],
)
def test_a_run_that_cannot_be_built_does_not_cost_the_old_one(finished, capsys, flags):
    before = {path: path.read_bytes() for path in finished.iterdir() if path.is_file()}
    assert status_of(*TRAIN, "--out", finished, "--fresh", *flags) == 2
    assert "cannot be held in memory" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in finished.iterdir() if path.is_file()} == before


def test_a_setting_that_cannot_be_kept_does_not_cost_the_old_run(finished, capsys):
    before = (finished / CHECKPOINT).read_bytes()
    assert status_of(*TRAIN, "--out", finished, "--fresh", "--learner.network.decay", "inf") == 2
    assert "unless learner.network.decay is finite" in capsys.readouterr().err
    assert (finished / CHECKPOINT).read_bytes() == before


def test_an_environment_that_cannot_be_made_does_not_cost_the_old_run(finished, capsys):
    def env(gain, render_mode):
        if gain < 0:
            raise ZeroDivisionError("the second task has no scene")
        return tiny.Point(gain)

    before = (finished / CHECKPOINT).read_bytes()
    with tiny.registered(tiny=lambda num_tasks=2: tiny.make_suite("tiny", env, num_tasks)):
        assert status_of(*TRAIN, "--out", finished, "--fresh") == 2
    assert "the second task has no scene" in capsys.readouterr().err
    assert (finished / CHECKPOINT).read_bytes() == before


# Divergence


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"learner.learning_rate": 1e30}, "loss is"),
        ({"critic.learning_rate": 1e30, "critic.updates": 20}, "parameters are"),
    ],
    ids=["model", "value"],
)
def test_a_run_that_diverges_stops_and_is_marked(tmp_path, capsys, changes, what):
    config = change(resolve("tiny", "finetune", num_tasks=2), changes)
    with pytest.raises(UserError, match=rf"diverged in task 1 after \d+ planned steps: its {what}"):
        run(config, tmp_path / "run", Silent(), checkpoint_seconds=0)
    arrays, _ = checkpoint.load(tmp_path / "run" / CHECKPOINT)
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
    assert read_progress(tmp_path / "run").state == "diverged"
    main(["list", "runs", "--folder", str(tmp_path)])
    assert "diverged" in capsys.readouterr().out
    main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report")])
    assert "diverged" in capsys.readouterr().out
    table = (tmp_path / "report" / "tables" / "tiny-tiny-runs.md").read_text()
    assert "seed 0: diverged in task 1" in table
    assert "diverged and stopped" in (tmp_path / "report" / "index.html").read_text()


# Sweep files


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"suite: 2020-13-45", "is not valid YAML"),
        (b"suite: &a [*a]", "levels deep"),
        (b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (i, i) for i in range(9)), "no "),
        (b"suite: [" * 3000, "is not valid YAML"),
        (b"? [1, 2]\n: 3", "must|no|YAML"),
        (b"1: 2", "no 1"),
        (b"suite: {a: b}", "'suite' of a sweep"),
        (b"suite: 3", "'suite' of a sweep"),
        (b"suite: tiny\nseeds: 99999999999", "at most 100,000"),
        (b"suite: tiny\nseeds: [[]]", "'seeds' of a sweep"),
        (b"suite: tiny\ntasks: yes", "'tasks' of a sweep"),
        (b"suite: tiny\nset: [a]", "'set' of a sweep"),
        (b"suite: tiny\nset: {1: 2}", "'set' of a sweep"),
        (b"suite: tiny\nname: ../../outside", "cannot be the name of a folder"),
        (b'suite: tiny\nname: "a\\e[2J"', "cannot be the name of a folder"),
        (b"suite: tiny\nruns: {a: b}", "must be a list"),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else "",
)
def test_a_sweep_file_may_hold_anything(tmp_path, content, told):
    (tmp_path / "sweep.yaml").write_bytes(content)
    with pytest.raises(UserError, match=told) as raised:
        plan_runs(read_selections(tmp_path / "sweep.yaml", {}))
    assert len(str(raised.value)) < 600 and str(raised.value).isprintable()


def test_a_pair_of_settings_that_need_each_other_is_accepted(tmp_path):
    settings = {"planning.num_samples": 2, "planning.num_elites": 2}  # three of two cannot be
    text = json.dumps({"suite": "tiny", "method": "finetune", "set": settings})
    (tmp_path / "sweep.yaml").write_text(text)
    (planned,) = plan_runs(read_selections(tmp_path / "sweep.yaml", {}))
    assert planned.config.to_stored().planning["num_elites"] == 2


@pytest.mark.parametrize("name", ["a/b", "..\\b", "x" * 300, "tab\t", "\udcff"])
def test_a_name_is_no_path(name):
    with pytest.raises(UserError, match="cannot be the name of a folder"):
        require_name(name)


def test_conflict_needs_episodes(finished, capsys):
    assert status_of("conflict", finished, "--episodes", 0) == 2
    assert "--episodes must be at least 1" in capsys.readouterr().err
