"""Sweeps on one machine: what is planned, what runs, and what happens when something goes wrong."""

import io
import os
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hypercrl.errors import UserError
from hypercrl.experiment.config import resolve
from hypercrl.experiment.records import End, Episode, to_line
from hypercrl.experiment.run_folder import CHECKPOINT, CONFIG
from hypercrl.registry import learners, load_plugin
from hypercrl.sweep.job import Job, Outcome, run_job
from hypercrl.sweep.local import LocalLauncher, available_cores, make_slots
from hypercrl.sweep.location import FolderLocation, Location
from hypercrl.sweep.manifest import begin_attempt, close_attempt, read_attempts, write_manifest
from hypercrl.sweep.mirror import EXPIRY_SECONDS, GIVE_UP_SECONDS, UrlLocation
from hypercrl.sweep.plan import (
    Selection,
    make_selection,
    parse_settings,
    plan_runs,
    read_selections,
)
from hypercrl.sweep.session import Session, Shared
from hypercrl.sweep.status import RunStatus
from hypercrl.sweep.table import SweepDisplay, count_states, describe, draw_table
from hypercrl.threads import one_thread
from small_disk import small_disk
from sweeping import (
    METHODS,
    PLUGIN,
    attempts,
    is_alive,
    metrics,
    read_manifest,
    single_runs,
    start_sweep,
    sweep,
    wait_until,
)

CARTPOLE = Selection(suite=("cartpole",), method=("finetune",))
SWEEPS = sorted((Path(__file__).parents[1] / "results").rglob("*.yaml"))


def plan(**values):
    return plan_runs([make_selection({"suite": "cartpole", "method": "finetune", **values})])


# The plan


def test_a_plan_has_every_combination_once_and_first_seeds_first():
    runs = plan(suite=["cartpole", "pusher"], method=["single", "finetune"], seeds=2)
    assert len({run.name for run in runs}) == 8
    assert [run.config.seed for run in runs] == [0] * 4 + [1] * 4
    assert "pusher-single-laptop-s1" in {run.name for run in runs}
    assert plan_runs([CARTPOLE, CARTPOLE]) == plan_runs([CARTPOLE])


def test_all_methods_are_those_of_the_registry():
    assert {run.config.method for run in plan(method="all")} == set(learners.names())


def test_settings_change_the_runs_that_have_them():
    runs = plan(
        method=["hypercrl", "finetune"],
        set=parse_settings(
            [
                "schedule.updates=7",
                "learner.regulariser.strength=1",
                "learner.network.hidden=[5, 6]",
            ]
        ),
    )
    by_method: dict[str, Any] = {run.config.method: run.config for run in runs}
    assert all(config.schedule.updates == 7 for config in by_method.values())
    assert all(config.learner.network.hidden == (5, 6) for config in by_method.values())
    strength = by_method["hypercrl"].learner.regulariser.strength
    assert (strength, type(strength)) == (1.0, float)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"set": {"learner.gamma": 1}}, "No run of the sweep has the setting 'learner.gamma'"),
        ({"set": {"updates": 1}}, "must begin with one of"),
        ({"set": {"schedule.updates": "many"}}, "cannot become 'many'"),
        ({"set": {"schedule.updates": 1.5}}, "cannot become 1.5"),
        ({"set": {"schedule.updates": True}}, "cannot become True"),
        ({"set": {"schedule.updates": -1}}, "at least 0"),
        ({"seeds": 0}, "'seeds'"),
        ({"seeds": [0, -1]}, "'seeds'"),
        ({"tasks": "three"}, "'tasks'"),
        ({"suite": []}, "'suite'"),
        ({"method": "nonsense"}, "no method called 'nonsense'"),
        ({"preset": "huge"}, "no preset 'huge'"),
        ({"colour": "red"}, "no 'colour'"),
    ],
)
def test_a_wrong_selection_is_told(values, message):
    with pytest.raises(UserError, match=message):
        plan(**values)


@pytest.mark.parametrize("text", ["schedule.updates", "=3", "schedule.updates="])
def test_a_setting_without_a_name_or_value_is_told(text):
    with pytest.raises(UserError, match="NAME=VALUE"):
        parse_settings([text])


def test_a_file_names_several_selections(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "suite: cartpole\n"
        "seeds: [3]\n"
        "runs:\n"
        "  - method: [finetune, single]\n"
        "  - {method: hypercrl, name: weak, set: {learner.regulariser.strength: 1e-3}}\n"
    )
    planned = plan_runs(read_selections(path, {"tasks": 2}))
    runs: dict[str, Any] = {run.name: run.config for run in planned}
    assert set(runs) == {
        "cartpole-finetune-laptop-s3",
        "cartpole-single-laptop-s3",
        "cartpole-hypercrl-laptop-weak-s3",
    }
    assert all(config.num_tasks == 2 for config in runs.values())
    assert runs["cartpole-hypercrl-laptop-weak-s3"].learner.regulariser.strength == 1e-3


def test_settings_of_a_file_a_selection_and_the_flags_add_up(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "suite: cartpole\nmethod: single\n"
        "set: {schedule.updates: 7, schedule.eval_episodes: 2, schedule.random_start: 1}\n"
        "runs: [{set: {schedule.updates: 8, schedule.eval_episodes: 3}}]\n"
    )
    (planned,) = plan_runs(read_selections(path, {"set": {"schedule.updates": "9"}}))
    schedule = planned.config.schedule
    assert (schedule.updates, schedule.eval_episodes, schedule.random_start) == (9, 3, 1)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_sweeps_behind_the_results_can_be_planned(path):
    planned = plan_runs(read_selections(path, {}))
    assert len(planned) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite: [cartpole", "not valid YAML"),
        ("- cartpole", "must map names"),
        ("suite: cartpole\nruns: 3", "'runs'"),
        ("suite: cartpole\nmethods: all", "no 'methods'"),
        ("suite: cartpole\nset: 3\nruns: [{set: {schedule.updates: 1}}]", "'set' of a sweep"),
        (
            "suite: cartpole\nruns: [{method: single}, {method: single, tasks: 2}]",
            "two different runs",
        ),
    ],
)
def test_a_wrong_file_is_told(tmp_path, text, message):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        plan_runs(read_selections(path, {}))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_selections(tmp_path / "none.yaml", {})


# Slots


def test_runs_are_pinned_where_the_sweep_uses_every_core(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    cores = available_cores()
    assert [slot.core for slot in make_slots(None)] == cores
    assert [slot.core for slot in make_slots(2 * len(cores))] == cores + cores
    assert {slot.core for slot in make_slots(max(len(cores) - 1, 1))} <= {None, cores[0]}
    with pytest.raises(UserError, match="at least one"):
        make_slots(0)


def test_each_run_sees_one_of_the_visible_devices(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    devices = [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in make_slots(3)]
    assert devices == ["3", "5", "3"]


def test_one_thread_keeps_the_flags_of_the_user():
    variables = one_thread({"XLA_FLAGS": "--xla_dump_to=dump"})
    assert variables["XLA_FLAGS"] == "--xla_dump_to=dump --xla_cpu_multi_thread_eigen=false"
    own = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"}
    assert one_thread(own)["XLA_FLAGS"] == own["XLA_FLAGS"]


# A session with a launcher whose outcomes are known


class ScriptedLauncher:
    """Ends each job at once, as told, and leaves the records that such a run would leave."""

    num_slots = 1
    busy = False

    def __init__(self, root: Path, outcomes: dict[str, Outcome] | None = None):
        self.started: list[str] = []
        self._root = root
        self._outcomes = outcomes or {}
        self._ended: list[tuple[str, Outcome]] = []

    @property
    def has_room(self) -> bool:
        return not self._ended

    def start(self, job: Job) -> None:
        self.started.append(job.name)
        outcome = self._outcomes.get(job.name, Outcome("finished"))
        folder = self._root / job.name
        folder.mkdir(exist_ok=True)
        begin_attempt(folder)
        if outcome.state == "finished":
            write_finished_run(folder, job.config)
        close_attempt(folder, outcome.state, outcome.reason)
        self._ended.append((job.name, outcome))

    def collect(self, seconds: float) -> list[tuple[str, Outcome]]:
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        pass


class Listener(SweepDisplay):
    def __init__(self):
        self.said: list[str] = []
        self.states: list[dict[str, str]] = []

    def update(self, statuses, slots):
        self.states.append({status.name: status.state for status in statuses})

    def tell(self, text):
        self.said.append(text)


def write_finished_run(folder: Path, config) -> None:
    (folder / CONFIG).write_text(config.to_json())
    (folder / "metrics.jsonl").write_text(to_line(End()) + "\n")


def carry_out(location: Location, launcher, runs=None, *, videos: bool = False, listener=None):
    runs = plan(seeds=3) if runs is None else runs
    shared = Shared(str(location.view), videos=videos)
    session = Session(runs, location, launcher, listener or Listener(), shared)
    return {status.name: status for status in session.run()}


SMALL_DISK = 1_000_000  # bytes
NAMES = [f"cartpole-finetune-laptop-s{seed}" for seed in range(3)]


def test_finished_runs_are_skipped_and_failed_ones_tried_again(tmp_path):
    failing = {NAMES[1]: Outcome("failed", "It broke.")}
    first = ScriptedLauncher(tmp_path, failing)
    states = carry_out(FolderLocation(tmp_path), first)
    assert first.started == NAMES
    assert [states[name].state for name in NAMES] == ["finished", "failed", "finished"]
    assert states[NAMES[1]].reason == "It broke."
    second = ScriptedLauncher(tmp_path)
    states = carry_out(FolderLocation(tmp_path), second)
    assert second.started == [NAMES[1]]
    assert {status.state for status in states.values()} == {"finished"}
    manifest = read_manifest(tmp_path)
    tries = {name: [a["state"] for a in manifest[name]["attempts"]] for name in NAMES}
    assert tries[NAMES[1]] == ["failed", "finished"]
    assert tries[NAMES[0]] == tries[NAMES[2]] == ["finished"]


def test_a_run_that_lacks_its_videos_is_taken_up_again(tmp_path):
    runs = plan(tasks=2)
    carry_out(FolderLocation(tmp_path), ScriptedLauncher(tmp_path), runs)
    again = ScriptedLauncher(tmp_path, {NAMES[0]: Outcome("finished", note="Nothing to film.")})
    listener = Listener()
    carry_out(FolderLocation(tmp_path), again, runs, videos=True, listener=listener)
    assert again.started == [NAMES[0]]
    assert listener.said == [f"{NAMES[0]}: Nothing to film."]
    videos = tmp_path / NAMES[0] / "videos"
    videos.mkdir()
    for task in range(2):
        (videos / f"task-{task}-after-1.mp4").touch()
    done = ScriptedLauncher(tmp_path)
    carry_out(FolderLocation(tmp_path), done, runs, videos=True)
    assert done.started == []


def test_a_folder_with_another_run_is_neither_skipped_nor_continued(tmp_path):
    carry_out(FolderLocation(tmp_path), ScriptedLauncher(tmp_path))
    launcher = ScriptedLauncher(tmp_path)
    states = carry_out(FolderLocation(tmp_path), launcher, plan(set={"schedule.updates": 3}))
    assert states[NAMES[0]].state == "failed"
    assert "other settings (schedule.updates); choose another" in states[NAMES[0]].reason
    assert launcher.started == []


def test_a_run_that_cannot_be_started_fails_alone(tmp_path):
    (tmp_path / NAMES[0]).write_text("not a folder")
    launcher = LocalLauncher(1)
    states = carry_out(FolderLocation(tmp_path), launcher, plan())
    assert states[NAMES[0]].state == "failed"
    assert "could not be started" in states[NAMES[0]].reason
    assert launcher.has_room and not launcher.busy


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("config.json", None, "not a regular file"),
        ("config.json", "[" * 100_000, "is damaged"),
        ("attempts.json", '{"state": 3}', "no list of attempts"),
        ("attempts.json", "[", "is damaged"),
        ("metrics.jsonl", '{"kind": "episode"}\n{"kind": "end"}\n', "has no 'task'"),
        ("notes.txt", "mine", "not a run that could be continued"),
    ],
)
def test_a_bad_folder_fails_alone(tmp_path, file, content, told):
    folder = tmp_path / NAMES[1]
    folder.mkdir()
    if file == "metrics.jsonl":
        (folder / CONFIG).write_text(plan(seeds=[1])[0].config.to_stored().to_json())
    os.mkfifo(folder / file) if content is None else (folder / file).write_text(content)
    before = sorted(folder.iterdir())
    launcher = ScriptedLauncher(tmp_path)
    states = carry_out(FolderLocation(tmp_path), launcher)
    assert [states[name].state for name in NAMES] == ["finished", "failed", "finished"]
    assert told in states[NAMES[1]].reason and "--fresh" not in states[NAMES[1]].reason
    assert launcher.started == [NAMES[0], NAMES[2]]
    assert sorted(folder.iterdir()) == before
    assert read_manifest(tmp_path)[NAMES[1]]["state"] == "failed"


def test_runs_of_another_sweep_are_waited_for(tmp_path):
    """The other sweep finishes one of its runs, fails at one and leaves one."""
    other = FolderLocation(tmp_path)
    assert all(other.claim(name) for name in NAMES)
    configs = {run.name: run.config.to_stored() for run in plan(seeds=3)}

    class Elsewhere(Listener):
        def update(self, statuses, slots):
            super().update(statuses, slots)
            if len(self.states) != 1:
                return
            for name in NAMES:
                (tmp_path / name).mkdir()
                begin_attempt(tmp_path / name)
            write_finished_run(tmp_path / NAMES[0], configs[NAMES[0]])
            close_attempt(tmp_path / NAMES[0], "finished", "")
            close_attempt(tmp_path / NAMES[1], "failed", "It broke there.")
            other.close()

    listener = Elsewhere()
    launcher = ScriptedLauncher(tmp_path)
    states = carry_out(FolderLocation(tmp_path), launcher, listener=listener)
    assert listener.states[0] == dict.fromkeys(NAMES, "elsewhere")
    assert launcher.started == [NAMES[2]]
    assert [states[name].state for name in NAMES] == ["finished", "failed", "finished"]
    assert states[NAMES[1]].reason == "It broke there."
    assert [a["state"] for a in read_attempts(tmp_path / NAMES[2])] == ["lost", "finished"]


# The manifest


def test_manifests_of_two_plans_are_merged(tmp_path):
    carry_out(FolderLocation(tmp_path), ScriptedLauncher(tmp_path), plan(seeds=1))
    carry_out(FolderLocation(tmp_path), ScriptedLauncher(tmp_path), plan(method="single"))
    manifest = read_manifest(tmp_path)
    assert set(manifest) == {NAMES[0], "cartpole-single-laptop-s0"}
    entry = manifest[NAMES[0]]
    assert (entry["suite"], entry["method"], entry["seed"]) == ("cartpole", "finetune", 0)
    attempt = entry["attempts"][0]
    assert attempt["start"] <= attempt["end"]
    assert {"host", "pid"} < attempt.keys() and "jax" in attempt["versions"]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"runs": 3}'])
def test_a_damaged_manifest_is_put_aside_and_written_anew(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    write_manifest(tmp_path, {})
    assert read_manifest(tmp_path) == {}
    assert (tmp_path / "manifest.json.damaged").read_text() == content


# Locations


@pytest.fixture(params=["folder", "url"])
def two_locations(request, tmp_path):
    """Two sweeps' views of the same place."""
    made = [
        FolderLocation(tmp_path) if request.param == "folder" else UrlLocation(f"file://{tmp_path}")
        for _ in range(2)
    ]
    yield made
    for location in made:
        location.close()


def test_a_claim_has_one_holder_until_it_is_released(two_locations):
    one, other = two_locations
    assert one.claim("run") and not other.claim("run")
    one.release("run")
    assert other.claim("run") and not one.claim("run")
    other.close()
    assert one.claim("run")


def test_a_claim_at_a_url_expires_unless_it_is_renewed(tmp_path, monkeypatch):
    gone, other, third = (UrlLocation(f"file://{tmp_path}") for _ in range(3))
    assert gone.claim("run")
    later = time.time() + GIVE_UP_SECONDS - 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert not other.claim("run")
    gone._held["run"] = float("-inf")
    gone.refresh([])
    monkeypatch.setattr(time, "time", lambda: later + EXPIRY_SECONDS - 1)
    assert not other.claim("run")
    monkeypatch.setattr(time, "time", lambda: later + EXPIRY_SECONDS + 1)
    assert other.claim("run")
    gone.close()  # after all
    assert not third.claim("run")
    other.close()
    assert third.claim("run")
    third.close()


def write_run(folder: Path, text: str) -> None:
    for name in ("config.json", "metrics.jsonl", "timing.jsonl", CHECKPOINT):
        (folder / name).write_text(text)


@pytest.mark.parametrize("url", ["file://{}", "memory://{}"])
def test_a_run_travels_through_a_url(tmp_path, url):
    location = UrlLocation(url.format(tmp_path / "store"))
    with location.workspace("run") as workspace:
        write_run(workspace.folder, "first")
        (workspace.folder / ".lock").touch()
        workspace.save()
        (workspace.folder / "metrics.jsonl").write_text("first and second")
        workspace.save()  # nothing is due and no checkpoint is new
        scratch = workspace.folder
    assert not scratch.exists()
    with location.workspace("run") as workspace:
        found = {path.name: path.read_text() for path in workspace.folder.iterdir()}
        assert found == dict.fromkeys(
            ("config.json", "metrics.jsonl", "timing.jsonl", CHECKPOINT), "first"
        )
        (workspace.folder / "metrics.jsonl").write_text("first and second")
        workspace.save(final=True)
    location.refresh(["run"])
    view = location.view / "run"
    assert (view / "metrics.jsonl").read_text() == "first and second"
    assert not (view / CHECKPOINT).exists()
    location.close()
    assert not view.exists()


def test_a_checkpoint_never_arrives_before_its_records(tmp_path, monkeypatch):
    location = UrlLocation(f"file://{tmp_path}")
    order: list[str] = []
    upload = location.upload_run_file

    def watch(name, file, source):
        order.append(file)
        if file == "metrics.jsonl":  # the run goes on meanwhile
            (source.parent / CHECKPOINT).unlink()
            (source.parent / CHECKPOINT).write_text("later")
        upload(name, file, source)

    monkeypatch.setattr(location, "upload_run_file", watch)
    with location.workspace("run") as workspace:
        write_run(workspace.folder, "now")
        workspace.save()
        assert order[-1] == CHECKPOINT and len(order) == 4
        assert (tmp_path / "run" / CHECKPOINT).read_text() == "now"
        workspace.save()
        assert (tmp_path / "run" / CHECKPOINT).read_text() == "later"
    location.close()


def test_records_without_a_checkpoint_are_left_behind(tmp_path):
    location = UrlLocation(f"file://{tmp_path}")
    (tmp_path / "run").mkdir()
    write_run(tmp_path / "run", "early")
    (tmp_path / "run" / CHECKPOINT).unlink()
    with location.workspace("run") as workspace:
        assert [path.name for path in workspace.folder.iterdir()] == ["config.json"]
    location.close()


def test_an_unknown_kind_of_url_is_told():
    with pytest.raises(UserError, match="cannot be kept at nonsense://place"):
        UrlLocation("nonsense://place")


# The table


def status(seed: int, state: str, **values) -> RunStatus:
    run = plan(seeds=[seed])[0]
    return RunStatus(run.name, run.config.to_stored(), Path("nowhere"), state=state, **values)


def test_the_table_shows_what_matters_first():
    statuses = [status(0, "finished"), status(1, "waiting"), status(2, "running")]
    console = Console(width=120, file=io.StringIO())
    console.print(draw_table(statuses, 2, room=2))
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert text.index("-s2") < text.index("-s1")
    assert "-s0" not in text
    assert "3 runs: 1 running, 1 waiting, 1 finished" in text


def test_a_line_tells_the_reason_of_a_failure():
    line = describe(status(0, "failed", reason="It [broke]."))
    assert line == f"{NAMES[0]}: failed. It [broke]."


def test_time_left_follows_from_the_pace(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    run = plan()[0]
    running = RunStatus(run.name, run.config.to_stored(), tmp_path)
    running.start()
    write_progress(tmp_path, running.config, 1_000)
    running.read()
    assert running.seconds_left is None
    clock[0] += 50
    write_progress(tmp_path, running.config, 1_500)
    running.read()
    assert running.rate == 10
    assert running.seconds_left == (running.total - 1_500) / 10
    write_progress(tmp_path, running.config, running.total)
    running.read()
    assert running.cells()[-1] == "only tests"  # and not 0 s
    assert count_states([running], 1).endswith("only tests left")


def write_progress(folder: Path, config, step: int) -> None:
    (folder / CONFIG).write_text(config.to_json())
    record = Episode(task=0, step=step, total_step=step, episode=1, total=1.0, random=False)
    (folder / "metrics.jsonl").write_text(to_line(record) + " " * (step % 7) + "\n")


# Whole sweeps in processes of their own


@pytest.mark.parametrize("left", [0, 30_000], ids=["no room at all", "room to begin"])
def test_a_full_disk_is_known_as_such(tmp_path, registries, monkeypatch, left):
    """Another machine's may have room."""
    load_plugin(str(PLUGIN))
    job = Job(
        "run", resolve("toy", "single").to_stored(), f"file://{tmp_path}/store", (str(PLUGIN),)
    )
    with small_disk(tmp_path / "disk", SMALL_DISK):
        (tmp_path / "disk" / "others").write_bytes(bytes(SMALL_DISK - left))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
        monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))
        outcome = run_job(job)
    assert outcome.state == "failed" and outcome.full


def test_a_run_of_a_sweep_is_not_advised_a_flag_that_sweeps_lack(tmp_path, registries):
    """Records without a checkpoint have to go; `hypercrl train` would do that with --fresh."""
    load_plugin(str(PLUGIN))
    config = resolve("toy", "single").to_stored()
    (tmp_path / "run").mkdir()
    write_progress(tmp_path / "run", config, 10)
    outcome = run_job(Job("run", config, str(tmp_path), (str(PLUGIN),)))
    assert outcome.state == "failed"
    assert "put it back, or delete the run's folder to start it over" in outcome.reason


def test_a_sweep_gives_the_metrics_of_single_runs(tmp_path):
    args = ("--suite", "toy", "--method", *METHODS, "--seeds", "1", "--no-report")
    status, output = sweep(tmp_path, *args)
    assert status == 0, output
    names = [f"toy-{method}-custom-s0" for method in METHODS]
    assert metrics(tmp_path) == {name: single_runs()[name] for name in names}
    manifest = read_manifest(tmp_path)
    assert {entry["state"] for entry in manifest.values()} == {"finished"}
    before = {name: attempts(tmp_path, name) for name in manifest}
    status, output = sweep(tmp_path, *args)
    assert status == 0, output
    assert {name: attempts(tmp_path, name) for name in manifest} == before


def test_failing_runs_are_told_apart_and_tried_again(tmp_path):
    kinds = ("raises", "nan", "killed")
    suites = ("toy", *(f"toy-{kind}" for kind in kinds))
    args = ("--suite", *suites, "--method", "single", "--seeds", "1", "--no-report")
    status, output = sweep(tmp_path, *args, TOY_TROUBLE="1")
    assert status == 1
    summary = output[output.index("3 of 4 runs failed") :]
    assert re.search("toy-raises-single-custom-s0: .*the motor is unplugged", summary)
    assert "toy-nan-single-custom-s0: The environment of task 'task 0' returned a state" in summary
    assert "toy-killed-single-custom-s0: The process was killed by SIGKILL" in summary
    log = (tmp_path / "toy-raises-single-custom-s0" / "run.log").read_text()
    assert "RuntimeError: the motor is unplugged" in log
    again = ("--suite", "toy", "toy-killed", *args[args.index("--method") :])
    status, output = sweep(tmp_path, *again)
    assert status == 0, output
    manifest = read_manifest(tmp_path)
    tries = [[a["state"] for a in manifest[f"{s}-single-custom-s0"]["attempts"]] for s in suites]
    assert tries == [["finished"], ["failed"], ["failed"], ["failed", "finished"]]
    expected = single_runs()["toy-single-custom-s0"]
    found = metrics(tmp_path)
    assert found["toy-single-custom-s0"] == found["toy-killed-single-custom-s0"] == expected


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_runs(tmp_path):
    args = ("--suite", "toy", "--method", "single", "--seeds", "4", "--jobs", "1", "--no-report")
    sweeps = [start_sweep(tmp_path, *args) for _ in range(2)]
    outputs = [process.communicate()[0] for process in sweeps]
    assert [process.returncode for process in sweeps] == [0, 0], outputs
    names = [f"toy-single-custom-s{seed}" for seed in range(4)]
    assert metrics(tmp_path) == {name: single_runs(4)[name] for name in names}
    assert [len(attempts(tmp_path, name)) for name in names] == [1, 1, 1, 1]
    assert {entry["state"] for entry in read_manifest(tmp_path).values()} == {"finished"}


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_was_stopped_goes_on(tmp_path, how):
    name = "toy-slow-single-custom-s0"
    args = ("--suite", "toy-slow", "--method", "single", "--seeds", "1", "--videos", "--no-report")
    process = start_sweep(tmp_path, *args, TOY_TROUBLE="1")
    wait_until(lambda: '"task": 1' in metrics(tmp_path).get(name, b"").decode(), process)
    process.send_signal(how)
    output, _ = process.communicate()
    (first,) = attempts(tmp_path, name)
    wait_until(lambda: not is_alive(first["pid"]))
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "stopped; the same command" in output
        assert first["state"] == "stopped"
    status, output = sweep(tmp_path, *args)
    assert status == 0, output
    assert metrics(tmp_path)[name] == single_runs()["toy-single-custom-s0"]
    assert "No video could be made" in output  # the toy cannot be drawn, and that is no failure
    log = (tmp_path / name / "run.log").read_text()
    assert "continuing at task 2" in log
    states = [attempt["state"] for attempt in attempts(tmp_path, name)]
    assert states == ["stopped" if how == signal.SIGINT else "lost", "finished"]


def test_a_sweep_keeps_its_runs_behind_a_url(tmp_path):
    args = ("--suite", "toy", "--method", "single", "--seeds", "2")
    status, output = sweep(f"file://{tmp_path}/store", *args)
    assert status == 0, output
    names = [f"toy-single-custom-s{seed}" for seed in range(2)]
    store = tmp_path / "store"
    assert metrics(store) == {name: single_runs()[name] for name in names}
    assert {entry["state"] for entry in read_manifest(store).values()} == {"finished"}
    assert (store / names[0] / CHECKPOINT).is_file()
    assert "retention" in output
    assert (store / "report" / "index.html").is_file()
    assert f"file://{store}/report/index.html" in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "needs at least one suite"),
        (("--suite", "toy", "--address", "auto"), "belong to --launcher ray"),
        (("--suite", "toy", "--jobs", "0"), "at least one job"),
    ],
)
def test_a_wrong_command_is_told(tmp_path, args, message, monkeypatch, capsys):
    from hypercrl.cli import main

    suite = ["cartpole" if arg == "toy" else arg for arg in args]
    with pytest.raises(SystemExit) as caught:
        main(["sweep", *suite, "--out", str(tmp_path)])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
