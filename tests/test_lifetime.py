"""Runs that go on: extended by more tasks, they end as if they had been as long from the start."""

import functools
import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hypercrl
import tiny
from hypercrl.custom import append_tasks, register_suite, suite_from_envs
from hypercrl.data import room
from hypercrl.data.room import enlarge, room_for
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.retests import choose_retested, tasks_to_test
from hypercrl.experiment.run_folder import CHECKPOINT, CONFIG, read_run
from hypercrl.experiment.store import Store
from hypercrl.presets import Schedule
from hypercrl.registry import learners, suites
from hypercrl.sweep.plan import plan_runs, read_selections
from hypercrl.training import run
from test_runner import Interrupted, Interrupting

QUICK = ("hypercrl", "coreset", "pnn")
"""What differs most in what grows; `make test-all` extends the others too."""

METHODS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in learners.names()
]


class StopAtTest(Silent):
    """Stops a run at its n-th test."""

    def __init__(self, count: int):
        self.count = count

    def test(self, task, after, mean_return):
        self.count -= 1
        if self.count == 0:
            raise Interrupted


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Room for two tasks at a time, so that a third one needs more."""
    monkeypatch.setattr(room, "BLOCK", 2)


def configure(method="finetune", num_tasks=3, **schedule):
    return tiny.configure(method=method, num_tasks=num_tasks, eval_every=0, **schedule)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A method's run of three tasks from the start, made when it is first asked for."""

    @functools.cache
    def whole(method: str):
        folder = tmp_path_factory.mktemp("whole")
        run(configure(method), folder, Silent())
        return folder

    return whole


def test_room_comes_in_blocks(monkeypatch):
    monkeypatch.setattr(room, "BLOCK", 5)
    assert [room_for(n) for n in (1, 5, 6, 10, 11)] == [5, 5, 10, 10, 15]


def test_a_larger_state_holds_all_that_the_smaller_one_held():
    old = {"rows": jnp.ones((2, 3)), "pairs": jnp.ones((2, 4)), "shared": jnp.ones(3)}
    new = {"rows": jnp.zeros((4, 3)), "pairs": jnp.zeros((4, 8)), "shared": jnp.zeros(3)}
    found = enlarge(old, new)
    assert {name: x.shape for name, x in found.items()} == {n: x.shape for n, x in new.items()}
    assert {name: float(x.sum()) for name, x in found.items()} == {
        "rows": 6,
        "pairs": 8,
        "shared": 3,
    }
    assert found["pairs"][:2, :4].all()


def test_what_was_compiled_for_smaller_arrays_is_let_go(tmp_path):
    """Else a process of some hundred tasks runs out of memory maps."""
    traced = []
    note = jax.jit(lambda x: traced.append(x) or x)
    run(configure(num_tasks=3), tmp_path, Silent(), after_task=lambda task: note(task))
    assert len(traced) == 2  # for the first two tasks, and anew for the third, in larger arrays


@pytest.mark.parametrize("method", METHODS)
def test_an_extended_run_equals_one_that_was_as_long_from_the_start(method, three, tmp_path):
    """With an interruption in the task that was added, and one before its first checkpoint."""
    run(configure(method, num_tasks=2), tmp_path, Silent())
    assert read_progress(tmp_path).finished
    before = (tmp_path / "metrics.jsonl").read_bytes()
    for events in (1, 12):
        with pytest.raises(Interrupted):
            run(configure(method), tmp_path, Interrupting(events), checkpoint_seconds=0)
        assert not read_progress(tmp_path).finished
    hypercrl.extend(tmp_path, num_tasks=3)
    tiny.assert_same_run(tmp_path, three(method))
    end = b'{"kind": "end"}\n'
    assert before.endswith(end)
    assert (tmp_path / "metrics.jsonl").read_bytes().startswith(before.removesuffix(end))


def test_a_run_is_extended_in_the_middle_of_a_task(three, tmp_path):
    with pytest.raises(Interrupted):
        run(configure(num_tasks=1), tmp_path, Interrupting(9), checkpoint_seconds=0)
    hypercrl.extend(tmp_path, num_tasks=3)
    tiny.assert_same_run(tmp_path, three("finetune"))
    assert load(tmp_path).num_learnt == 3


def test_a_longer_run_is_not_made_shorter(three, tmp_path):
    folder = shutil.copytree(three("finetune"), tmp_path / "copy")
    with pytest.raises(UserError, match="holds a run of 3 tasks, and fewer are asked for"):
        hypercrl.extend(folder, num_tasks=2)
    tiny.assert_same_run(folder, three("finetune"))


def test_other_tasks_than_before_are_refused(three, tmp_path):
    folder = shutil.copytree(three("finetune"), tmp_path / "copy")
    others = tuple(reversed(tiny.GAINS[:4]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "GAINS", others)
        with pytest.raises(UserError, match=r"other settings \(tasks\)"):
            hypercrl.extend(folder, num_tasks=4)


def test_a_crash_while_a_run_is_extended_loses_nothing(three, tmp_path):
    """The configuration is the longer one already, and the checkpoint still that of the end."""
    run(configure(num_tasks=2), tmp_path, Silent())
    store = Store(tmp_path, configure())
    store.restore()
    assert store.go_on()
    store.close()
    assert json.loads((tmp_path / CONFIG).read_text())["num_tasks"] == 3
    run(configure(), tmp_path, Silent())
    tiny.assert_same_run(tmp_path, three("finetune"))


# Suites of one's own


def register_points(count: int) -> None:
    """A suite of so many points, as a user would write it."""
    envs = [functools.partial(tiny.Point, gain) for gain in tiny.GAINS[:count]]
    suite = suite_from_envs(
        "points",
        envs,
        tiny.reward,
        episode_length=tiny.SPEC.episode_length,
        encoding=tiny.SPEC.encoding,
        preset=tiny.PRESET,
        task_names=[f"gain {gain:g}" for gain in tiny.GAINS[:count]],
    )
    register_suite(suite)


def test_a_suite_of_one_s_own_may_get_longer(tmp_path):
    with tiny.registered():
        register_points(2)
        folder = hypercrl.train("points", "hypercrl", out=tmp_path / "extended")
        register_points(3)
        hypercrl.extend(folder, num_tasks=3)
        straight = hypercrl.train("points", "hypercrl", out=tmp_path / "straight")
        tiny.assert_same_run(folder, straight)


def test_a_suite_may_go_on_with_a_task_of_one_s_own(tmp_path):
    with tiny.registered():
        run(configure(num_tasks=2), tmp_path, Silent())
        mine = functools.partial(tiny.Point, 0.3)
        append_tasks("tiny", [mine], after=2, task_names=["mine"])
        hypercrl.extend(tmp_path, num_tasks=3)
        found = read_run(tmp_path)
        assert found.complete and found.tasks == ("gain 1", "gain -1", "mine")
        assert load(tmp_path).suite.tasks[2].name == "mine"
        append_tasks("tiny", [mine], after=2, task_names=["mine"])  # a plugin may come twice
        assert len(suites.get("tiny")().tasks) == 3
    with pytest.raises(UserError, match=r"other settings \(tasks\)"):
        hypercrl.extend(tmp_path, num_tasks=4)


def test_a_task_of_one_s_own_has_the_suite_s_spaces():
    with tiny.registered(), pytest.raises(UserError, match="The encoding is for 2 numbers"):
        append_tasks("tiny", ["Pendulum-v1"], after=2)


# Folders from before there was room


def make_old(folder, config):
    """What version 0.2 would have left behind: arrays for its tasks only, other names."""
    path = folder / CHECKPOINT
    arrays, info = checkpoint.load(path)
    template = config.learner.init(tiny.SPEC, config.num_tasks, key=jax.random.key(0))
    sizes = {f"learner/{n}": x.shape for n, x in checkpoint.flatten(template).items()}
    arrays = {
        name: array[tuple(slice(n) for n in sizes[name])] if name in sizes else array
        for name, array in arrays.items()
        if "snapshot" not in name
    }
    for name in checkpoint.section(arrays, "memory"):
        arrays[f"memory/{name}"] = arrays[f"memory/{name}"][: config.num_tasks]
    if any("hypernet" in name for name in arrays):
        arrays["learner/anchors"] = np.zeros((config.num_tasks, 3), np.float32)
    stored = json.loads((folder / CONFIG).read_text())
    for name in ("retest_tasks", "retest_all_every"):
        del stored["schedule"][name]
    stored["learner"].get("regulariser", {}).pop("regularised_tasks", None)
    (folder / CONFIG).write_text(json.dumps(stored))
    marks = Store(folder, config)
    info["run"] = marks._fingerprints()[-1]
    marks.close()
    checkpoint.save(path, arrays, info)
    return arrays


@pytest.mark.parametrize("method", ["hypercrl", "finetune"])
def test_an_older_run_goes_on(method, three, tmp_path):
    config = configure(method, num_tasks=1)
    run(config, tmp_path, Silent())
    old = make_old(tmp_path, config)
    assert len(old["memory/counts"]) == 1
    assert ("learner/anchors" in old) == (method == "hypercrl")
    assert load(tmp_path).num_learnt == 1
    hypercrl.extend(tmp_path, num_tasks=3)
    ours, theirs = read_run(tmp_path), read_run(three(method))
    assert [(e.task, e.after) for e in ours.evaluations] == [
        (e.task, e.after) for e in theirs.evaluations
    ]


def test_an_older_run_in_the_middle_of_a_task_says_who_can_go_on(tmp_path):
    config = configure("hypercrl", num_tasks=2)
    with pytest.raises(Interrupted):
        run(config, tmp_path, Interrupting(35), checkpoint_seconds=0)
    assert read_progress(tmp_path).task == 2
    make_old(tmp_path, config)
    with pytest.raises(UserError, match="by an older version, which kept other things"):
        run(config, tmp_path, Silent())


# Tests of some of the tasks


def test_all_older_tasks_are_tested_unless_told_otherwise():
    assert choose_retested(Schedule(), seed=0, task=4) == [0, 1, 2, 3]
    assert choose_retested(Schedule(retest=False, retest_tasks=2), seed=0, task=4) == []


def test_the_first_task_and_a_few_drawn_ones_are_tested():
    schedule = Schedule(retest_tasks=3)
    assert choose_retested(schedule, 0, 0) == []
    assert choose_retested(schedule, 0, 3) == [0, 1, 2]
    chosen = [choose_retested(schedule, 0, task) for task in range(4, 40)]
    for task, older in enumerate(chosen, start=4):
        assert len(set(older)) == 3 and older == sorted(older) and older[-1] < task
        assert older[0] == 0
    assert len({task for older in chosen for task in older}) > 20
    assert chosen == [choose_retested(schedule, 0, task) for task in range(4, 40)]
    assert chosen != [choose_retested(schedule, 1, task) for task in range(4, 40)]


def test_all_are_tested_at_milestones_and_at_the_end():
    config = tiny.configure(num_tasks=12, retest_tasks=1, retest_all_every=4)
    tested = [tasks_to_test(config, task) for task in range(12)]
    for task, tasks in enumerate(tested):
        everything = (task + 1) % 4 == 0
        assert sorted(tasks) == (list(range(task + 1)) if everything else sorted({0, task}))
    never = tiny.configure(num_tasks=12, retest_tasks=1, retest_all_every=0)
    assert tasks_to_test(never, 3) == [0, 3]
    assert len(tasks_to_test(never, 11)) == 12


def test_a_run_tests_what_its_schedule_says(tmp_path):
    run(configure(num_tasks=4, retest_tasks=1), tmp_path, Silent())
    tested = [(e.task, e.after) for e in read_run(tmp_path).evaluations if e.phase == "final"]
    assert tested == [(0, 0), (0, 1), (1, 1), (0, 2), (2, 2), (0, 3), (3, 3), (1, 3), (2, 3)]


def test_a_run_extended_among_its_last_tests_leaves_none_out(tmp_path):
    schedule = {"retest_tasks": 1, "zero_shot": False}
    with pytest.raises(Interrupted):  # after the first of the milestone's own tests
        stop = StopAtTest(1 + 2 + 3)
        run(configure(num_tasks=3, **schedule), tmp_path, stop, checkpoint_seconds=0)
    run(configure(num_tasks=4, **schedule), tmp_path, Silent())
    tested = [(e.task, e.after) for e in read_run(tmp_path).evaluations if e.phase == "final"]
    assert {(0, 2), (2, 2), (0, 3), (1, 3), (2, 3), (3, 3)} <= set(tested)
    assert len(set(tested)) == len(tested)


@pytest.mark.parametrize(
    ("file", "tasks", "count", "retested"), [("pusher", 100, 12, 2), ("cartpole", 25, 25, 4)]
)
def test_the_long_sweeps_can_be_planned(file, tasks, count, retested):
    path = Path(__file__).parents[1] / "results" / "lifetime" / f"{file}.yaml"
    planned = plan_runs(read_selections(path, {}))
    assert len(planned) == count
    assert {one.config.num_tasks for one in planned} == {tasks}
    assert {one.config.schedule.retest_tasks for one in planned} == {retested}
