"""A run's folder: whose it is, what may be deleted, and what happens when it cannot be written."""

import dataclasses
import json
import shutil
import struct
import subprocess
import sys
import types

import pytest
from tensorboardX.proto import event_pb2

import tiny
from hypercrl.cli import main
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, code, lock
from hypercrl.experiment import store as store_module
from hypercrl.experiment.display import Silent
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.run_folder import CHECKPOINT, Code, read_config
from hypercrl.experiment.store import CONTENTS, Store
from hypercrl.training import run
from small_disk import open_folder, read_only, small_disk


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(tiny.configure(), folder, Silent())
    return folder


@pytest.fixture
def half(finished, tmp_path):
    """A run that has finished its first task, and a record beyond its last checkpoint."""
    folder = tmp_path / "half"
    stop_after_first_task(folder)
    return folder


class Stop(BaseException):
    pass


class StopAfterFirstTask(Silent):
    def advance(self, task, step):
        if task == 1 and step == 3:
            raise Stop


def stop_after_first_task(folder):
    with pytest.raises(Stop):
        run(tiny.configure(), folder, StopAfterFirstTask())


def contents(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files if path.name != ".lock"}


def go_on(folder, finished):
    """Continue a run and make sure that it ends as if nothing had happened."""
    run(tiny.configure(), folder, Silent())
    tiny.assert_same_run(folder, finished)


def test_half_a_run_has_more_records_than_its_checkpoint(half, finished):
    _, info = checkpoint.load(half / CHECKPOINT)
    assert (half / "metrics.jsonl").stat().st_size > info["lengths"]["metrics"] > 0
    go_on(half, finished)


def test_finished_run_is_left_as_it_is(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "copy")
    before = contents(folder)
    run(tiny.configure(), folder, Silent())
    assert contents(folder) == before


def test_second_process_is_turned_away(finished):
    store = Store(finished, tiny.configure())
    try:
        with pytest.raises(UserError, match="Another process is working on the run"):
            Store(finished, tiny.configure(), fresh=True)
    finally:
        store.close()
    assert read_progress(finished).finished


def test_other_settings_are_named(half, finished):
    before = contents(half)
    with pytest.raises(UserError, match=r"other settings \(schedule.updates, seed\)"):
        Store(half, tiny.configure(seed=3, updates=4))
    assert contents(half) == before
    go_on(half, finished)


def test_fresh_deletes_the_run_and_nothing_else(half, finished):
    (half / "notes.txt").write_text("mine")
    (half / "videos").mkdir()
    (half / "videos" / "task-0-after-0.mp4").write_text("video")
    store = Store(half, tiny.configure(seed=3), fresh=True)
    store.close()
    assert store.replaced
    assert {path.name for path in half.iterdir()} == {
        ".lock",
        "config.json",
        "metrics.jsonl",
        "notes.txt",
        "timing.jsonl",
    }
    assert (half / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", [n for n in CONTENTS if n != "config.json"])
def test_folder_of_something_else_is_not_touched(tmp_path, name, fresh):
    (tmp_path / name).write_text("precious")
    with pytest.raises(UserError, match="not a run that could be continued"):
        Store(tmp_path, tiny.configure(), fresh=fresh)
    assert contents(tmp_path).popitem()[1] == b"precious"


@pytest.mark.parametrize("text", ["{}", "[1]", '{"name": "a web page"}', "{broken", ""])
@pytest.mark.parametrize("fresh", [False, True])
def test_configuration_of_something_else_is_not_touched(tmp_path, text, fresh):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json is (damaged|not the configuration)"):
        Store(tmp_path, tiny.configure(), fresh=fresh)
    assert (tmp_path / "config.json").read_text() == text


def test_starting_over_may_be_interrupted_too(half, finished, monkeypatch):
    """Whatever has been deleted by then, the folder is a run that can be started again."""
    monkeypatch.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(Stop))
    with pytest.raises(Stop):
        Store(half, tiny.configure(), fresh=True)
    monkeypatch.undo()
    assert not (half / CHECKPOINT).exists() and (half / "config.json").exists()
    go_on(half, finished)


def test_checkpoint_of_another_run_is_refused(half, finished, tmp_path):
    run(tiny.configure(seed=1), tmp_path / "other", Silent())
    own = (half / CHECKPOINT).read_bytes()
    shutil.copy(tmp_path / "other" / CHECKPOINT, half / CHECKPOINT)
    with pytest.raises(UserError, match="is of another run than its config"):
        run(tiny.configure(), half, Silent())
    (half / CHECKPOINT).write_bytes(own)
    go_on(half, finished)


def test_crafted_checkpoint_is_refused(half):
    arrays, info = checkpoint.load(half / CHECKPOINT)
    for change in ({"position": {"task": "1; import os"}}, {"lengths": None}, {"seconds": 3}):
        checkpoint.save(half / CHECKPOINT, arrays, {**info, **change})
        with pytest.raises(UserError, match="does not fit the run"):
            run(tiny.configure(), half, Silent())
    few = {name: array[..., :1] for name, array in arrays.items() if array.ndim}
    checkpoint.save(half / CHECKPOINT, few, info)
    with pytest.raises(UserError, match="belongs to another"):
        run(tiny.configure(), half, Silent())


def test_damaged_checkpoint_is_told_and_the_one_before_is_good(half, finished):
    whole = (half / CHECKPOINT).read_bytes()
    (half / CHECKPOINT).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="delete it to continue from the one before"):
        run(tiny.configure(), half, Silent())
    (half / CHECKPOINT).unlink()
    go_on(half, finished)


def test_lost_checkpoint_does_not_cost_the_records(half, finished):
    kept = (half / CHECKPOINT).read_bytes()
    records = (half / "metrics.jsonl").read_bytes()
    for path in half.glob("checkpoint*"):
        path.unlink()
    with pytest.raises(UserError, match="whose checkpoint is missing"):
        run(tiny.configure(), half, Silent())
    assert (half / "metrics.jsonl").read_bytes() == records
    (half / CHECKPOINT).write_bytes(kept)
    go_on(half, finished)


def test_shortened_records_are_told(half, finished):
    records = (half / "metrics.jsonl").read_bytes()
    (half / "metrics.jsonl").write_bytes(records[:40])
    with pytest.raises(UserError, match="shorter than when the checkpoint was taken"):
        run(tiny.configure(), half, Silent())
    (half / "metrics.jsonl").write_bytes(records)
    go_on(half, finished)


# Full at the first checkpoint, at the first record, or at a record or checkpoint later on.
@pytest.mark.parametrize("size", [4_096, 8_192, 12_288, 16_384, 24_576])
def test_full_disk_is_told_and_the_run_goes_on_later(finished, tmp_path, size):
    folder, rescued = tmp_path / "disk", tmp_path / "rescued"
    with small_disk(folder, size):
        with pytest.raises(UserError, match=r"cannot be written \((No space left|File too large)"):
            run(tiny.configure(), folder / "run", Silent(), checkpoint_seconds=0)
        assert not checkpoint.partial(folder / "run" / CHECKPOINT).exists()
        shutil.copytree(folder / "run", rescued)
    go_on(rescued, finished)


def test_read_only_folder_is_told_and_the_run_goes_on_later(finished):
    with open_folder() as folder:
        stop_after_first_task(folder / "run")
        (folder / "run" / ".lock").unlink()
        with (
            read_only(folder / "run"),
            pytest.raises(UserError, match=r"cannot be written \(Permission denied\)"),
        ):
            run(tiny.configure(), folder / "run", Silent())
        go_on(folder / "run", finished)


def test_folder_under_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\)"):
        Store(tmp_path / "file" / "run", tiny.configure())
    assert (tmp_path / "file").read_text() == "precious"


def test_runs_are_listed_with_how_far_they_are(half, finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "whole")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "config.json").write_text('{"title": "of something else"}')
    main(["list", "runs", "--folder", str(tmp_path)])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    states = {row[0]: row[-1] for row in rows[1:-1]}
    assert states == {"half": "unfinished", "page": "unreadable", "whole": "finished"}
    assert "page/config.json is not the configuration of a run: it has no" in " ".join(rows[-1])


def read_events(folder):
    """Events of all processes in the order in which TensorBoard reads them."""
    events = []
    for path in sorted((folder / "events").iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("Q", data[:8])
            events.append(event_pb2.Event.FromString(data[12 : 12 + length]))  # pyright: ignore
            data = data[16 + length :]
    return events


def shown_by_tensorboard(events):
    """What is left once every restart has hidden the events that come again."""
    shown = []
    for event in events:
        if event.HasField("session_log"):
            shown = [(step, *rest) for step, *rest in shown if step < event.step]
        shown += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    return shown


def test_tensorboard_shows_a_continued_run_once(half, finished):
    go_on(half, finished)
    assert len(list((half / "events").iterdir())) == 2
    whole = shown_by_tensorboard(read_events(finished))
    assert sorted(set(shown_by_tensorboard(read_events(half)))) == sorted(whole)
    tags = {tag for _, tag, _ in whole}
    assert {"episode/total/task_1", "session/loss/task_2", "evaluation/returns/task_1"} <= tags


class FakeWandb(types.ModuleType):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__("wandb")
        self.started, self.logged, self.closed = [], [], 0

    def init(self, **kwargs):
        self.started.append(kwargs)
        return self

    def define_metric(self, name, step_metric):
        assert (name, step_metric) == ("*", "total_step")

    def log(self, values):
        self.logged.append(values)

    def finish(self):
        self.closed += 1


def test_wandb_goes_on_in_the_same_run(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with pytest.raises(Stop):
        run(tiny.configure(), tmp_path, StopAfterFirstTask(), wandb=True)
    run(tiny.configure(), tmp_path, Silent(), wandb=True)
    first, second = fake.started
    assert fake.closed == 2
    assert first["id"] == second["id"] and first["resume"] == "allow"
    assert first["config"]["method"] == "finetune"
    assert fake.logged[-1]["total_step"] == 2 * tiny.PRESET.schedule.steps_per_task
    assert any("evaluation/returns/task_2" in values for values in fake.logged)
    run(tiny.configure(), tmp_path, Silent(), fresh=True, wandb=True)
    assert fake.started[2]["id"] != first["id"]


def test_wandb_writes_through_no_link(half, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb())
    (half / "wandb").symlink_to(tmp_path)
    with pytest.raises(UserError, match="wandb is not a folder of its own"):
        run(tiny.configure(), half, Silent(), wandb=True)


def test_missing_wandb_is_told_before_anything_is_deleted(half, finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install hypercrl\[wandb\]"):
        run(tiny.configure(), half, Silent(), fresh=True, wandb=True)
    go_on(half, finished)


def test_wandb_that_refuses_is_told(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(fake, "init", lambda **kwargs: json.loads("not logged in"))
    with pytest.raises(UserError, match="Weights & Biases cannot be used: Expecting value"):
        run(tiny.configure(), tmp_path, Silent(), wandb=True)


def test_lock_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="cannot be written"):
        Store(tmp_path / "run", tiny.configure())
    assert (tmp_path / "precious").read_text() == "mine"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_lock_is_free_again_once_its_process_is_gone(tmp_path):
    code = "import sys, pathlib, os; from hypercrl.experiment import lock; "
    take = f"{code}assert lock.take(pathlib.Path(sys.argv[1])); os._exit(1)"
    subprocess.run([sys.executable, "-c", take, str(tmp_path / ".lock")], check=False)
    assert (tmp_path / ".lock").exists() and not lock.is_taken(tmp_path / ".lock")


class Listening(Silent):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def test_code_that_continues_a_run_is_named(half, finished, monkeypatch):
    first = read_config(half).code
    assert first == (code.this_code(),)
    changed = Code("0.2.0", "0123456789abcdef")
    monkeypatch.setattr(store_module, "this_code", lambda: changed)
    listener = Listening()
    run(tiny.configure(), half, listener)
    assert read_config(half).code == (*first, changed)
    assert any("other sources" in said for said in listener.said)
    tiny.assert_same_run(half, finished)


def test_code_that_only_looks_at_a_run_is_not_named(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished, tmp_path / "copy")
    before = contents(folder)
    monkeypatch.setattr(store_module, "this_code", lambda: Code("0.2.0", "0123456789abcdef"))
    run(tiny.configure(), folder, Silent())
    assert contents(folder) == before


def test_same_code_continues_without_a_word(half):
    listener = Listening()
    run(tiny.configure(), half, listener)
    assert listener.said == [] and len(read_config(half).code) == 1


def test_name_of_an_experiment_does_not_make_it_another_run(half, finished):
    run(dataclasses.replace(tiny.configure(), name="weak"), half, Silent())
    tiny.assert_same_run(half, finished)
