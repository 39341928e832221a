"""A run's folder as everybody reads it: records, configuration, and the code behind them."""

import dataclasses
import functools
import json
import math
import shutil
from pathlib import Path

import pytest

import hypercrl
from hypercrl.durations import duration
from hypercrl.errors import UserError
from hypercrl.experiment import code, records
from hypercrl.experiment.code import fingerprint, this_code
from hypercrl.experiment.records import (
    Cost,
    Diverged,
    Embeddings,
    End,
    Episode,
    Evaluation,
    RandomPolicy,
    Session,
    SessionTime,
    TaskTime,
    from_line,
    to_line,
)
from hypercrl.experiment.run_folder import StoredConfig, differences, read_config, read_run
from hypercrl.experiment.trackers import scalars

PLACE = {"task": 1, "step": 20, "total_step": 60}
ONE_OF_EACH = (
    RandomPolicy(1, (-1.5, 2.0)),
    Episode(**PLACE, episode=3, total=-4.25, random=True),
    Session(**PLACE, loss=0.5, regulariser=None, validation=0.25),
    Evaluation(
        **PLACE,
        after=2,
        phase="final",
        returns=(1.0, 2.0),
        successes=(True, False),
        measures={"angle [rad]": (0.5, 0.0)},
        one_step=0.1,
        h_step=0.3,
    ),
    Cost(
        **PLACE,
        parameters=10,
        bytes_per_task=4,
        memory_bytes=0,
        evaluations_per_action=9,
        peak_bytes=99,
    ),
    Embeddings(1, ((0.0, 1.0), (2.0, 3.0))),
    Diverged(**PLACE, what="loss"),
    End(),
    SessionTime(1, 20, 0.5),
    TaskTime(1, 9.0, 1.0, 2.0, 3.0, 3.0),
)
CONFIG = StoredConfig(
    suite="tiny",
    method="single",
    preset="tiny",
    seed=2,
    num_tasks=2,
    tasks=("one", "two"),
    planner="icem",
    schedule={"steps_per_task": 40},
    learner={"network": {"hidden": [8, 8]}},
    planning={"horizon": 3},
)


def test_there_is_one_of_each():
    assert {(one.file, one.kind) for one in ONE_OF_EACH} == records.KINDS.keys()


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: f"{record.file} {record.kind}")
def test_a_record_comes_back_as_it_was(record):
    line = to_line(record)
    assert "\n" not in line and json.loads(line)["kind"] == record.kind
    assert from_line(record.file, line) == record


def test_what_blew_up_is_null_in_the_file():
    line = to_line(dataclasses.replace(ONE_OF_EACH[1], total=math.inf))
    assert json.loads(line)["total"] is None
    episode = from_line(records.METRICS, line)
    assert isinstance(episode, Episode) and math.isnan(episode.total)


@pytest.mark.parametrize("part", ["task", "total", "random"])
def test_a_record_without_one_of_its_numbers_is_refused(part):
    data = json.loads(to_line(ONE_OF_EACH[1]))
    for change in ({part: "many"}, {part: [1]}):
        with pytest.raises(ValueError, match=f"'{part}' cannot be"):
            from_line(records.METRICS, json.dumps({**data, **change}))
    del data[part]
    with pytest.raises(ValueError, match=f"no '{part}'"):
        from_line(records.METRICS, json.dumps(data))


def write(folder: Path, *lines: str) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(CONFIG.to_json())
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    return folder


def test_a_line_that_was_being_written_is_left_out_and_any_other_is_told(tmp_path):
    good, torn = to_line(ONE_OF_EACH[1]), to_line(ONE_OF_EACH[2])[:20]
    assert len(read_run(write(tmp_path / "torn", good, torn)).episodes) == 1
    with pytest.raises(UserError, match=r"Line 1 of .*metrics\.jsonl cannot be read"):
        read_run(write(tmp_path / "damaged", torn, good))
    newer = '{"kind": "of a later version"}'
    assert read_run(write(tmp_path / "newer", newer, good)).episodes


def test_a_configuration_comes_back_as_it_was(tmp_path):
    assert read_config(write(tmp_path / "run")) == CONFIG


def test_code_versions_and_name_do_not_make_another_run(tmp_path):
    changes = {"name": "weak", "code": (this_code(),), "versions": {"jax": "9"}}
    same = dataclasses.replace(CONFIG, **changes)
    assert differences(same.identity(), CONFIG.identity()) == []
    other = dataclasses.replace(CONFIG, seed=3, learner={"network": {"hidden": [8]}})
    assert differences(other.identity(), CONFIG.identity()) == ["learner.network.hidden", "seed"]
    assert differences(other.settings(), CONFIG.settings()) == ["learner.network.hidden"]


def test_a_setting_without_end_is_told():
    endless = dataclasses.replace(CONFIG, learner={"clip": [1.0, math.inf]})
    with pytest.raises(UserError, match=r"unless learner\.clip is finite"):
        endless.to_json()


# The code


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the sources, each of which is taken apart once and not for every fingerprint."""
    source = next(iter(hypercrl.__path__))
    skip = shutil.ignore_patterns("__pycache__")
    find = code._remarks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "_remarks", functools.cache(lambda text: tuple(find(text))))
        folder = tmp_path_factory.mktemp("copy") / "hypercrl"
        yield Path(shutil.copytree(source, folder, ignore=skip))


def test_a_copy_of_the_code_is_the_same_code(package):
    assert fingerprint(package) == this_code().fingerprint
    assert len(this_code().fingerprint) == 16 and this_code().version


@pytest.mark.parametrize(
    ("file", "decides"),
    [
        ("suites/cartpole.xml", True),
        ("simulation/env.py", True),
        ("types.py", True),
        ("learners/si.py", True),
        ("data/buffer.py", True),
        ("planning/icem.py", True),
        ("experiment/runner.py", True),
        ("experiment/testing.py", True),
        ("somewhere/new.py", True),
        ("experiment/display.py", False),
        ("analysis/metrics.py", False),
        ("analysis/template/report.css", False),
        ("sweep/job.py", False),
        ("commands/train.py", False),
        ("commands/new.py", False),
    ],
)
def test_the_fingerprint_follows_what_decides_numbers(package, file, decides):
    before, path = fingerprint(package), package / file
    path.parent.mkdir(exist_ok=True)
    content = path.read_bytes() if path.exists() else None
    path.write_bytes((content or b"") + (b"<!-- -->" if file.endswith("xml") else b"\nx = 1\n"))
    after = fingerprint(package)
    path.unlink() if content is None else path.write_bytes(content)
    assert (after != before) == decides
    assert fingerprint(package) == before


REMARKED = '''"""What it is for."""

# A reason.
DEPTH = {"a": "#1"}  # and another, × 2


def f(x):
    """Text over
    lines."""
    return f"{x} # {DEPTH}"
'''


@pytest.mark.parametrize(
    ("old", "new", "decides"),
    [
        ("What it is for.", "What else it is for.", False),
        ("# A reason.\n", "", False),
        ("another, × 2", "one ÷ more", False),
        ("Text over\n    lines", "One line", False),
        ("\n\n\n", "\n\n", False),
        ('"#1"', '"#2"', True),
        ("# {DEPTH}", "{DEPTH}", True),
        ("    return", "    'now';  return", True),
    ],
)
def test_remarks_are_no_part_of_the_fingerprint(tmp_path, old, new, decides):
    source = tmp_path / "source.py"
    source.write_text(REMARKED, encoding="utf-8")
    before = fingerprint(tmp_path)
    assert old in REMARKED
    source.write_text(REMARKED.replace(old, new, 1), encoding="utf-8")
    assert (fingerprint(tmp_path) != before) == decides


def test_a_renamed_source_is_another_one(package):
    before = fingerprint(package)
    moved = (package / "suites" / "slide.py").rename(package / "suites" / "slid.py")
    assert fingerprint(package) != before
    moved.rename(package / "suites" / "slide.py")


# What the trackers show


def test_every_number_of_a_record_can_be_watched():
    metrics = [record for record in ONE_OF_EACH if record.file == records.METRICS]
    shown = {tag: value for record in metrics for tag, value in scalars(record).items()}
    expected = {
        "random_policy/returns": 0.25,
        "episode/total": -4.25,
        "session/loss": 0.5,
        "session/validation": 0.25,
        "evaluation/returns": 1.5,
        "evaluation/successes": 0.5,
        "evaluation/angle [rad]": 0.25,
        "evaluation/one_step": 0.1,
        "evaluation/h_step": 0.3,
        "cost/parameters": 10.0,
        "cost/bytes_per_task": 4.0,
        "cost/memory_bytes": 0.0,
        "cost/evaluations_per_action": 9.0,
        "cost/peak_bytes": 99.0,
    }
    assert shown == {f"{name}/task_2": value for name, value in expected.items()}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (42, "42 s"),
        (3.14159, "3.14 s"),
        (150, "2 min"),
        (7_000, "117 min"),
        (9_000, "2.5 h"),
        (math.nan, "–"),
    ],
)
def test_a_duration_is_written_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text
