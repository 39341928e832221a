"""Folders, files and names of somebody else: read without harm, never written through.

What is wrong is told with its reason, and everything beside it goes on.
"""

import contextlib
import csv
import dataclasses
import io
import json
import os
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import safetensors.numpy
from rich.console import Console

import tiny
from hypercrl import reading
from hypercrl.analysis.comparison import compare
from hypercrl.analysis.report import write_report
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.cli import main
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, video
from hypercrl.experiment.display import for_console
from hypercrl.experiment.records import Diverged, End, SessionTime, to_line
from hypercrl.experiment.run_folder import CHECKPOINT, find_runs, read_runs
from hypercrl.experiment.store import Store
from hypercrl.sweep.job import Job, RunProcess, run_job
from hypercrl.sweep.location import FolderLocation
from hypercrl.sweep.mirror import UrlLocation
from small_disk import small_disk
from synthetic_runs import Recipe, write_run

LINKS = ("config.json.partial", "metrics.jsonl", "timing.jsonl", "checkpoint.partial", ".lock")


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture
def precious(tmp_path):
    """Somebody's folder, which must be the same afterwards."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("mine")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_text() == "mine"


def work_on(folder: Path, *, fresh: bool = False) -> None:
    """Do in a folder everything that a run does there."""
    store = Store(folder, tiny.configure(), fresh=fresh)
    try:
        store.save({"x": np.ones(2)}, {}, total_step=0)
        store.record(Diverged(0, 0, 0, "loss"))
        store.record(SessionTime(0, 0, 1.0))
        store.sign()
    finally:
        store.close()


# Writing


# Only a run that starts over writes its configuration into a folder where there is one.
@pytest.mark.parametrize("fresh", [False, True], ids=["go on", "fresh"])
@pytest.mark.parametrize("hard", [False, True], ids=["link", "hard link"])
@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link(tmp_path, precious, name, hard, fresh):
    folder = tmp_path / "run"
    work_on(folder)
    (folder / name).unlink(missing_ok=True)
    if hard and name != ".lock":  # which is only ever opened
        (folder / name).hardlink_to(precious / "file")
    else:
        (folder / name).symlink_to(precious / "file")
    try:
        work_on(folder, fresh=fresh)
    except UserError as error:
        assert "cannot be written" in str(error)


def test_no_folder_is_written_through_a_link(tmp_path, precious, monkeypatch):
    folder = tmp_path / "run"
    work_on(folder)
    shutil.rmtree(folder / "events")
    for name in ("events", "videos"):
        (folder / name).symlink_to(precious)
    with pytest.raises(UserError, match="events is not a folder of its own"):
        work_on(folder)
    monkeypatch.setattr(video, "record_run", lambda run, task, path: path.write_text("a film"))
    filming = video.Filming(folder, 2)
    filming(0)
    assert "videos is not a folder of its own" in filming.problem
    work_on(folder, fresh=True)  # the links go, and what they lead to stays
    assert not (folder / "videos").is_symlink()


def test_a_lock_of_somebody_else_keeps_its_content(tmp_path):
    (tmp_path / ".lock").write_text("mine")
    work_on(tmp_path)
    assert (tmp_path / ".lock").read_text() == "mine"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_with_somebodys_notes_receives_no_run(precious, fresh):
    with pytest.raises(UserError, match=r"holds file but no config\.json"):
        Store(precious, tiny.configure(), fresh=fresh)


def test_a_sweep_works_in_folders_of_its_own_alone(tmp_path, precious):
    (tmp_path / "out").mkdir()
    location = FolderLocation(tmp_path / "out")
    (tmp_path / "out" / "run").symlink_to(precious)
    with pytest.raises(OSError, match="not a folder"), location.workspace("run"):
        pass
    (tmp_path / "out" / ".claims" / "run").symlink_to(precious / "file")
    with pytest.raises(OSError):
        location.claim("run")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".claims").symlink_to(precious)
    with pytest.raises(UserError, match="cannot be written"):
        FolderLocation(tmp_path / "linked")


@pytest.mark.parametrize("key", ["../../evil", "a/../../evil"])
def test_object_keys_do_not_lead_out_of_the_scratch_folder(tmp_path, monkeypatch, key):
    location = UrlLocation(f"memory://{tmp_path}")
    root = location._root
    monkeypatch.setattr(location._fs, "exists", lambda path: True)
    monkeypatch.setattr(location._fs, "find", lambda *a, **k: {f"{root}/run/{key}": {"size": 1}})
    monkeypatch.setattr(location._fs, "get_file", lambda _, target: Path(target).write_text("!"))
    with pytest.raises(UserError, match="not the name of a file within"):
        location.refresh(["run"])
    location.close()


def test_a_report_replaces_reports_alone(tmp_path, precious):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=1))
    with pytest.raises(UserError, match="holds file, which is not of a report"):
        write_report([run], precious)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<title>my home page</title>")
    with pytest.raises(UserError, match=r"holds index\.html, which is not of a report"):
        write_report([run], tmp_path / "site")
    page = write_report([run], tmp_path / "report")
    written = [file for file in (tmp_path / "report").rglob("*.*") if file != page]
    assert {file.suffix for file in written} == {".md", ".tex", ".csv", ".png", ".svg"}
    for file in written:
        file.unlink()
        file.symlink_to(precious / "file")
    assert write_report([run], tmp_path / "report") == page
    assert not any(file.is_symlink() for file in written)
    page.unlink()
    page.symlink_to(precious / "file")
    with pytest.raises(UserError, match=r"holds index\.html, which is not of a report"):
        write_report([run], tmp_path / "report")


@pytest.mark.parametrize("place", ["file.mp4", "folder.mp4", "folder.mp4/x.mp4", "x.txt"])
def test_a_video_is_refused_before_the_rollout(tmp_path, capsys, monkeypatch, place):
    (tmp_path / "file.mp4").write_text("mine")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "folder.mp4" / "x.mp4").write_text("mine")
    monkeypatch.setattr("hypercrl.experiment.video.Actor", None)  # no rollout gets that far
    with pytest.raises(SystemExit) as stop:
        main(["play", "tiny", "--random", "--video", str(tmp_path / place)])
    assert stop.value.code == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert (tmp_path / "file.mp4").read_text() == "mine"


def test_a_video_for_a_full_disk_is_refused_before_the_rollout(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hypercrl.experiment.video.Actor", None)  # no rollout gets that far
    folder = tmp_path / "disk"
    with small_disk(folder, size=200_000):
        with pytest.raises(SystemExit) as stop:
            main(["play", "tiny", "--random", "--video", str(folder / "x.mp4")])
        assert list(folder.iterdir()) == []
    assert stop.value.code == 2
    assert "cannot be written" in capsys.readouterr().err


# Bad folders


def damage_config(**changes):
    def damage(run: Path) -> None:
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, **changes}))

    return damage


def damage_text(name: str, old: str, new: str):
    def damage(run: Path) -> None:
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new, 1))

    return damage


def make_pipe(name: str):
    def damage(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return damage


def write_bytes(name: str, content: bytes):
    return lambda run: (run / name).write_bytes(content)


def link_away(run: Path) -> None:
    (run / "config.json").rename(run.parent / "elsewhere.json")
    (run / "config.json").symlink_to(run.parent / "elsewhere.json")


DAMAGES = {
    "config is a pipe": (make_pipe("config.json"), "not a regular file"),
    "metrics are a pipe": (make_pipe("metrics.jsonl"), "not a regular file"),
    "config is a link": (link_away, "it is a link"),
    "bottomless": (write_bytes("config.json", b"[" * 100_000), "is damaged"),
    "deep": (damage_config(learner=json.loads('{"a":' * 30 + "1" + "}" * 30)), "levels deep"),
    "not text": (write_bytes("config.json", b"\xff\xfe{"), "is damaged"),
    "infinity": (damage_config(planning={"beta": float("inf")}), "Infinity"),
    "beyond infinity": (damage_text("config.json", '"seed": 0', '"seed": 1e999'), "finite"),
    "too many bits": (damage_config(seed=10**30), "64 bits"),
    "a name that a terminal obeys": (damage_config(method="x\x1b[2J"), r"x\x1b[2J"),
    "half a letter": (damage_config(suite="\ud800"), r"\ud800"),
    "no tasks": (damage_config(tasks=[]), "0 tasks"),
    "steps in words": (damage_config(schedule={"steps_per_task": "many"}), "steps_per_task"),
    "a task too many": (damage_text("metrics.jsonl", '"task": 0', '"task": 99'), "'task' is 99"),
    "before the beginning": (damage_text("metrics.jsonl", '"step": ', '"step": -'), "Line"),
    "a missing field": (damage_text("metrics.jsonl", '"task": 0, ', ""), "has no 'task'"),
    "NaN": (damage_text("metrics.jsonl", '"total": ', '"total": NaN, "x": '), "NaN"),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """One good run among every kind of bad one."""
    root = tmp_path_factory.mktemp("mixed")
    good = write_run(root / "good", Recipe("x", num_tasks=2))
    for kind, (damage, _) in DAMAGES.items():
        damage(shutil.copytree(good, root / kind))
    return root


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_bad_folder_is_named_with_its_reason(mixed, kind):
    runs, unreadable = read_runs(find_runs([mixed / kind]))
    assert runs == []
    (reason,) = unreadable.values()
    assert DAMAGES[kind][1] in reason and kind in reason
    assert reason.isprintable()


def test_lists_and_reports_leave_bad_folders_out_and_go_on(mixed, tmp_path, capsys):
    main(["list", "runs", "--folder", str(mixed)])
    told = capsys.readouterr().out
    assert told.count("unreadable") == len(DAMAGES)
    assert told.count("finished") == 1
    main(["report", str(mixed), "--out", str(tmp_path / "report")])
    assert capsys.readouterr().out.count("Left out") == len(DAMAGES)
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("<li>") == len(DAMAGES)
    assert "\x1b" not in page


def test_a_report_of_nothing_but_bad_folders_says_why(mixed, tmp_path):
    with pytest.raises(UserError, match="is damaged"):
        write_report([mixed / "bottomless"], tmp_path / "report")


def test_a_checkpoint_with_numbers_of_another_kind_is_refused(tmp_path):
    """Eight bits are enough for a float, but not for NumPy."""
    path = tmp_path / CHECKPOINT
    header = {"x": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}
    header["__metadata__"] = {"format": checkpoint.FORMAT, "version": str(checkpoint.VERSION)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0")
    with pytest.raises(UserError, match="damaged"):
        checkpoint.load(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        checkpoint.load(tmp_path / "pipe")
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "whole")
    path.unlink()
    path.symlink_to(tmp_path / "whole")
    with pytest.raises(UserError, match="not a regular file"):
        checkpoint.load(path)


# Showing


def test_a_linked_video_is_not_shown(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=1, videos=True))
    videos, elsewhere = run / "videos", tmp_path / "elsewhere"
    (name,) = [file.name for file in videos.iterdir()]
    assert len(read_runs([run])[0][0].videos) == 1
    videos.rename(elsewhere)
    videos.symlink_to(elsewhere)
    assert read_runs([run])[0][0].videos == {}
    videos.unlink()
    videos.mkdir()
    (videos / name).symlink_to(elsewhere / name)
    assert read_runs([run])[0][0].videos == {}


def test_cells_are_neither_formulas_nor_tags():
    evil = "=HYPERLINK(1)|<img src=x>[link](javascript:1)`"
    table = Table("t", evil, evil, "@corner", ("+1",), ((evil, (Cell("-2"),)),), evil)
    rows = list(csv.reader(table.to_csv().splitlines()))
    assert rows == [["'@corner", "'+1"], [f"'{evil}", "'-2"]]
    markdown = table.to_markdown()
    assert "<img" not in markdown and "](" not in markdown.replace("\\](", "")
    assert all(line.count("|") - line.count(r"\|") == 3 for line in markdown.splitlines()[2:5])


def test_names_with_dollars_are_no_formulas(tmp_path):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=2))
    damage_config(method=r"$\undefined{$ 5 $", tasks=["$x^$", "[/bold] 𗬢"])(run)
    write_report([run], tmp_path / "report")  # a letter that no font has is not warned of either
    assert plt.get_fignums() == []


def test_presets_that_look_alike_keep_their_tables(tmp_path):
    for number, preset in enumerate(["a b", "a-b", "é"]):
        run = write_run(tmp_path / str(number), Recipe("x", num_tasks=1))
        damage_config(preset=preset, suite="é")(run)
    slugs = [comparison.slug for comparison in compare(read_runs(find_runs([tmp_path]))[0])]
    assert len(set(slugs)) == 3 and all(slugs)


def test_names_in_brackets_are_no_markup(tmp_path, capsys):
    run = write_run(tmp_path / "runs", Recipe("x", num_tasks=2))
    damage_config(suite="[/red]", method="[bold]")(run)
    main(["list", "runs", "--folder", str(tmp_path)])
    assert "[/red]" in capsys.readouterr().out
    main(["report", str(run), "--out", str(tmp_path / "[/u]")])
    told = capsys.readouterr().out
    assert all(name in told for name in ("[/red]", "[bold]", "[/u]"))


def test_a_run_in_a_folder_in_brackets(tmp_path, capsys):
    for more in ([], ["--fresh"]):
        main(["train", "tiny", "finetune", "--out", str(tmp_path / "[/i]"), *more])
    told = capsys.readouterr().out
    assert "[/i] has been deleted" in told and told.count("[/i].") == 2


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_display_shows_brackets_as_they_are(is_terminal):
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=200)
    config = dataclasses.replace(tiny.configure(), suite="[/red]")
    with contextlib.closing(for_console(config, console)) as display:
        display.advance(0, 1)
        display.say("in [/i]")
    assert "[/red]" in file.getvalue() and "in [/i]" in file.getvalue()


def test_a_folder_whose_name_a_terminal_would_obey(tmp_path, capsys):
    write_run(tmp_path / "\x1b[2J\udcff", Recipe("x", num_tasks=1))
    main(["list", "runs", "--folder", str(tmp_path)])
    told = capsys.readouterr().out
    assert "\x1b" not in told and r"\x1b[2J\udcff" in told


# Sweeps


def test_workers_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("open('imported', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    config = tiny.configure().to_stored()
    outcome = run_job(Job("run", config, str(tmp_path / "out")))
    assert outcome.state == "failed" and "There is no suite called 'tiny'" in outcome.reason
    assert not (tmp_path / "imported").exists()


def test_a_log_that_is_a_link_is_not_lengthened(tmp_path, precious):
    (tmp_path / "out" / "run").mkdir(parents=True)
    (tmp_path / "out" / "run" / "run.log").symlink_to(precious / "file")
    with pytest.raises(OSError):
        RunProcess(Job("run", tiny.configure().to_stored(), str(tmp_path / "out")))


def test_json_that_nobody_wrote_by_hand():
    assert reading.parse_json("[1, 2.5, null]") == [1, 2.5, None]
    for text in ("", "NaN", "-Infinity", "[" * 5000, "1" * 5000):
        with pytest.raises(ValueError, match=r"it (is not valid|holds)"):
            reading.parse_json(text)
    assert to_line(End()) == '{"kind": "end"}'
