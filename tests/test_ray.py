"""Sweeps on a real Ray cluster of three nodes, each with a raylet of its own on this machine."""

import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosts import hosts
from hypercrl.experiment.config import resolve
from hypercrl.sweep import ray_launcher
from hypercrl.sweep.job import Job, Outcome
from ray_cluster import QUIET, Node, ray_cluster
from small_disk import small_disk
from sweeping import (
    EIGHT_RUNS,
    FOUR_RUNS,
    attempts,
    environment,
    metrics,
    read_manifest,
    single_runs,
    start_sweep,
    sweep,
    wait_until,
)

CUT_SECONDS = 30.0
NODE_ID_DIGITS = 56
SMALL_BYTES, LEFT_BYTES = 1_000_000, 16_000  # a run needs more than is left


def launch_on(address: str) -> tuple[str, ...]:
    return ("--launcher", "ray", "--address", address, "--no-report")


def test_two_nodes_carry_out_a_run_each(tmp_path):
    """The least that shows whether everything that a cluster needs is installed."""
    with ray_cluster(2) as cluster:
        args = ("--suite", "toy", "--method", "single", "--seeds", "2", "--tasks", "1")
        status, output = sweep(tmp_path, *args, *launch_on(cluster.address), **QUIET)
    assert status == 0, output
    manifest = read_manifest(tmp_path)
    assert [entry["state"] for entry in manifest.values()] == ["finished"] * 2
    assert len({entry["attempts"][0]["pid"] for entry in manifest.values()}) == 2
    assert len(set(metrics(tmp_path).values())) == 2


@pytest.mark.slow
def test_a_cluster_gives_the_metrics_of_single_runs(tmp_path):
    with ray_cluster(3) as cluster:
        args = ("--suite", "toy", *EIGHT_RUNS, *launch_on(cluster.address))
        status, output = sweep(tmp_path, *args, **QUIET)
    assert status == 0, output
    assert metrics(tmp_path) == single_runs(4)
    manifest = read_manifest(tmp_path)
    assert {entry["state"] for entry in manifest.values()} == {"finished"}
    assert all(len(entry["attempts"]) == 1 for entry in manifest.values())


@pytest.mark.slow
def test_a_node_that_dies_costs_nothing_but_time(tmp_path):
    with ray_cluster(3, TOY_TROUBLE="1") as cluster:
        args = ("--suite", "toy-slow", *EIGHT_RUNS, *launch_on(cluster.address))
        process = start_sweep(tmp_path, *args, TOY_TROUBLE="1", **QUIET)
        victim = cluster.nodes[2]
        name = _run_on(victim, tmp_path, process)
        victim.kill_raylet()
        output, _ = process.communicate()
    assert process.returncode == 0, output
    found = {name.replace("toy-slow", "toy"): text for name, text in metrics(tmp_path).items()}
    assert found == single_runs(4)
    states = [attempt["state"] for attempt in attempts(tmp_path, name)]
    assert states == ["lost", "finished"]
    assert "continuing at task 2" in (tmp_path / name / "run.log").read_text()


class PretendedRay:
    """Two nodes that carry out a job as soon as they have it, unless their disks are full."""

    exceptions = SimpleNamespace(RayError=ArithmeticError)

    def __init__(self, full: set[str]):
        self.full = full
        self.places: list[str] = []

    def remote(self, **_):
        return lambda _task: self._Task(self)

    def nodes(self):
        names = [NODE_ID_DIGITS * letter for letter in "ab"]
        return [{"NodeID": name, "Alive": True, "Resources": {"CPU": 1}} for name in names]

    def wait(self, references, **_):
        return references[:1], references[1:]

    def get(self, place):
        node = self.places[place]
        full = node[0] in self.full
        outcome = Outcome("failed", "No space.", full=True) if full else Outcome("finished")
        return node, asdict(outcome)

    class _Task:
        def __init__(self, ray):
            self._ray = ray

        def options(self, *, name, scheduling_strategy=None):
            self._place = getattr(scheduling_strategy, "node_id", NODE_ID_DIGITS * "a")
            return self

        def remote(self, job):
            self._ray.places.append(self._place)
            return len(self._ray.places) - 1


@pytest.mark.parametrize(
    ("full", "ends", "places"),
    [({"a"}, ["finished", "finished"], "abb"), ({"a", "b"}, ["failed", "failed"], "aba")],
)
def test_runs_are_sent_elsewhere_where_a_disk_is_full(monkeypatch, full, ends, places):
    ray = PretendedRay(full)
    monkeypatch.setattr(ray_launcher, "_connect", lambda address: ray)
    launcher = ray_launcher.RayLauncher(None, jobs=1)
    found = []
    for name in ("one", "two"):
        launcher.start(Job(name, resolve("cartpole", "single").to_stored(), "out"))
        while launcher.busy:
            found += launcher.collect(0.0)
    assert [(name, outcome.state) for name, outcome in found] == list(
        zip(("one", "two"), ends, strict=True)
    )
    assert (
        "".join(place[0] for place in ray.places) == places
    )  # a full disk is not tried again while there is another


@pytest.mark.slow
def test_a_head_without_its_network_for_a_while_costs_nothing_but_time(tmp_path):
    """The other nodes are given up meanwhile, though they work on; nobody writes beside another."""
    args = ("--suite", "toy-slow", *FOUR_RUNS)
    with hosts(3) as machines, ray_cluster(3, on=machines, TOY_TROUBLE="1") as cluster:
        head = machines[0]
        args += launch_on(cluster.address)
        process = start_sweep(tmp_path, *args, before=head.command, TOY_TROUBLE="1", **QUIET)
        _run_on(cluster.nodes[2], tmp_path, process)
        assert head.reaches(machines[2])
        with head.unplugged():
            assert not head.reaches(machines[2])
            time.sleep(CUT_SECONDS)
        output, _ = process.communicate()
    assert process.returncode == 0, output
    found = {name.replace("toy-slow", "toy"): text for name, text in metrics(tmp_path).items()}
    assert found == single_runs()
    assert {entry["state"] for entry in read_manifest(tmp_path).values()} == {"finished"}


@pytest.mark.slow
def test_a_full_disk_on_one_node_costs_nothing_but_time(tmp_path):
    store, disk = tmp_path / "store", tmp_path / "disk"
    args = ("--suite", "toy", *FOUR_RUNS)
    with small_disk(disk, SMALL_BYTES) as is_disk:
        if not is_disk:
            pytest.skip("no right to mount a disk")
        with ray_cluster(3, scratch_of_last=str(disk)) as cluster:
            (disk / "others").write_bytes(bytes(SMALL_BYTES - LEFT_BYTES))
            args += launch_on(cluster.address)
            process = start_sweep(f"file://{store}", *args, **QUIET)
            wait_until(lambda: any(disk.glob("hypercrl-run-*")), process)
            output, _ = process.communicate()
    assert process.returncode == 0, output
    assert metrics(store) == single_runs()
    tries = [entry["attempts"] for entry in read_manifest(store).values()]
    assert {attempts[-1]["state"] for attempts in tries} == {"finished"}


def _run_on(node: Node, folder: Path, process: subprocess.Popen) -> str:
    """A run that has begun its second task on a node."""
    found = []

    def begun() -> bool:
        on_node = {process.pid for process in node.processes()}
        for name, text in metrics(folder).items():
            tries = attempts(folder, name)
            if tries and tries[-1]["pid"] in on_node and b'"task": 1' in text:
                found.append(name)
        return bool(found)

    wait_until(begun, process)
    return found[0]


@pytest.mark.slow
def test_a_cluster_keeps_its_runs_behind_a_url_and_can_be_interrupted(tmp_path):
    store = tmp_path / "store"
    name = "toy-slow-single-custom-s0"
    args = ("--suite", "toy-slow", "--method", "single", "--seeds", "2")
    # The second task waits for a file, so that no run can end before the signal comes.
    gate = {"TOY_TROUBLE": "1", "TOY_GATE": str(tmp_path / "gate")}
    with ray_cluster(2, **gate) as cluster:
        args += launch_on(cluster.address)
        process = start_sweep(f"file://{store}", *args, **gate, **QUIET)
        wait_until(lambda: b'"phase": "final"' in metrics(store).get(name, b""), process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
        assert process.returncode == 130, output
        assert attempts(store, name)[-1]["state"] == "stopped"
        (tmp_path / "gate").touch()
        status, output = sweep(f"file://{store}", *args, **gate, **QUIET)
        assert status == 0, output
    names = [f"toy-slow-single-custom-s{seed}" for seed in range(2)]
    expected = single_runs(4)
    assert metrics(store) == {name: expected[name.replace("-slow", "")] for name in names}
    assert "continuing at task" in (store / name / "run.log").read_text()


@pytest.mark.slow
def test_a_failure_on_the_cluster_is_told(tmp_path):
    with ray_cluster(1, TOY_TROUBLE="1") as cluster:
        args = ("--suite", "toy-nan", "toy-killed", "--method", "single", "--seeds", "1")
        args += launch_on(cluster.address)
        status, output = sweep(tmp_path, *args, TOY_TROUBLE="1", **QUIET)
    assert status == 1
    assert "2 of 2 runs failed" in output
    assert "toy-nan-single-custom-s0: The environment of task 'task 0' returned" in output
    assert "toy-killed-single-custom-s0: The process was killed by SIGKILL" in output


def test_a_missing_cluster_is_told(tmp_path):
    args = ("--suite", "toy", "--method", "single", *launch_on("127.0.0.1:1"))
    status, output = sweep(tmp_path, *args, **QUIET)
    assert status == 2
    assert "There is no Ray cluster at 127.0.0.1:1" in output
    assert "Traceback" not in output


def test_missing_ray_is_told(tmp_path):
    code = (
        "import sys\n"
        "sys.modules['ray'] = None\n"
        "from hypercrl.cli import main\n"
        "main(['sweep', '--suite', 'cartpole', '--launcher', 'ray', '--out', sys.argv[1]])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'hypercrl[ray]'" in done.stderr
