"""Algorithm 1 as it is run: what is recorded, from which seed, and across interruptions."""

import contextlib
import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest

import tiny
from hypercrl.data.buffer import Buffer
from hypercrl.dynamics.model import DynamicsModel
from hypercrl.experiment import checkpoint, runner, testing, video
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import change
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.episode import Trajectory
from hypercrl.experiment.records import RandomPolicy
from hypercrl.experiment.run_folder import CHECKPOINT, read_run
from hypercrl.learning.critic import Critic
from hypercrl.planning.optimistic import OptimisticModel
from hypercrl.registry import learners, suites
from hypercrl.training import run

METHODS = learners.names()
MODES = list(itertools.product(("tiny", "tiny-opaque"), ("episodic", "continuing")))
CRITIC_OFF = Critic()
NEVER = 1e9  # seconds between two checkpoints


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run from its beginning to its end, with one checkpoint a task."""
    folder = tmp_path_factory.mktemp("finished")
    run(tiny.configure(), folder, Silent(), checkpoint_seconds=NEVER)
    return folder


class Interrupted(BaseException):
    """Like Ctrl-C, at a moment of the test's choosing."""


class Interrupting(Silent):
    """Stops a run at its n-th event."""

    def __init__(self, events: int):
        self.events = events

    def advance(self, task, step):
        self.count()

    def episode(self, number, total):
        self.count()

    def session(self, validation):
        self.count()

    def test(self, task, after, mean_return):
        self.count()

    def count(self):
        self.events -= 1
        if self.events == 0:
            raise Interrupted


def run_with_interruptions(config, folder) -> int:
    """Stop again and again, each time a little later than before; how often that was."""
    for interruptions, events in enumerate(itertools.count(7, 3)):
        try:
            run(config, folder, Interrupting(events), checkpoint_seconds=0)
            return interruptions
        except Interrupted:
            continue
    raise AssertionError


def check_interruptions(tmp_path, suite, method, mode, critic=CRITIC_OFF, **schedule):
    config = tiny.configure(suite, method, continuing=mode == "continuing", **schedule)
    config = replace(config, critic=critic)
    run(config, tmp_path / "whole", Silent(), checkpoint_seconds=NEVER)
    assert run_with_interruptions(config, tmp_path / "stopped") >= 3
    tiny.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, method):
    check_interruptions(tmp_path, "tiny", method, "episodic")


@pytest.mark.parametrize(("suite", "mode"), MODES)
def test_interruptions_change_nothing_in_any_mode(tmp_path, suite, mode):
    check_interruptions(tmp_path, suite, "finetune", mode)


def test_interruptions_change_nothing_with_a_value(tmp_path):
    critic = Critic(updates=2, hidden=(3,), batch_size=4)
    check_interruptions(tmp_path, "tiny", "finetune", "episodic", critic)


def test_interruptions_change_nothing_in_odd_starts(tmp_path):
    check_interruptions(tmp_path, "tiny", "finetune", "episodic", random_start=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("suite", "mode"), MODES)
def test_interruptions_change_nothing_for_any_method_in_any_mode(tmp_path, method, suite, mode):
    check_interruptions(tmp_path, suite, method, mode)


@pytest.mark.slow
@pytest.mark.parametrize("suite", suites.names())
def test_simulation_goes_on_in_the_middle_of_an_episode(tmp_path, suite):
    config = tiny.configure(
        suite,
        random_episodes=1,
        steps_per_task=60,
        update_every=30,
        updates=20,
        eval_every=0,
        eval_episodes=1,
        zero_shot=False,
    )
    planner = replace(config.planner, num_samples=16, num_elites=8, num_kept=2)  # pyright: ignore[reportCallIssue]
    config = replace(config, planner=planner)
    run(config, tmp_path / "whole", Silent(), checkpoint_seconds=NEVER)
    for events in (37, 53, 29):
        with pytest.raises(Interrupted):
            run(config, tmp_path / "stopped", Interrupting(events), checkpoint_seconds=0)
    run(config, tmp_path / "stopped", Silent())
    tiny.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_checkpoints_do_not_influence_the_numbers(finished, tmp_path):
    run(tiny.configure(), tmp_path, Silent(), checkpoint_seconds=0)
    tiny.assert_same_run(finished, tmp_path)


def test_another_seed_gives_other_numbers(finished, tmp_path):
    run(tiny.configure(seed=1), tmp_path, Silent())
    ours, theirs = read_run(finished).evaluations, read_run(tmp_path).evaluations
    assert len(ours) == len(theirs)
    assert all(one.returns != other.returns for one, other in zip(ours, theirs, strict=True))


def test_tests_do_not_influence_the_training(finished, tmp_path):
    run(tiny.configure(eval_every=0, zero_shot=False, eval_episodes=1), tmp_path, Silent())
    ours, theirs = read_run(finished), read_run(tmp_path)
    assert ours.episodes == theirs.episodes and ours.sessions == theirs.sessions


def test_records_are_complete(finished):
    found = read_run(finished)
    schedule, steps = tiny.PRESET.schedule, tiny.PRESET.schedule.steps_per_task
    assert found.complete
    for task in range(2):
        sessions = [s for s in found.sessions if s.task == task]
        assert [s.step for s in sessions] == [0, 6, 12]
        assert [s.total_step for s in sessions] == [task * steps + s.step for s in sessions]
        episodes = [e for e in found.episodes if e.task == task]
        assert [e.episode for e in episodes] == list(range(1, len(episodes) + 1))
        assert sum(e.random for e in episodes) == schedule.random_episodes
    tests = [(e.phase, e.task, e.after, e.step) for e in found.evaluations]
    assert tests == [
        ("training", 0, 0, 6),
        ("final", 0, 0, 12),
        ("zero_shot", 1, 0, 0),
        ("training", 0, 1, 6),
        ("training", 1, 1, 6),
        ("final", 0, 1, 12),
        ("final", 1, 1, 12),
    ]
    assert [len(e.returns) for e in found.evaluations] == [1, 2, 1, 1, 1, 2, 2]
    assert [c.task for c in found.costs] == [t.task for t in found.task_times] == [0, 1]
    for time in found.task_times:
        parts = (time.planning, time.simulation, time.training, time.evaluation)
        assert min(parts) > 0 and sum(parts) <= time.seconds


def test_episodes_are_spent_where_a_number_is_reported(tmp_path):
    config = tiny.configure(eval_episodes=3, retest_episodes=1, eval_every=0, zero_shot=False)
    run(replace(config, num_tasks=3), tmp_path, Silent())
    counts = {(e.task, e.after): len(e.returns) for e in read_run(tmp_path).evaluations}
    assert counts == {(0, 0): 3, (0, 1): 1, (1, 1): 3, (0, 2): 3, (1, 2): 3, (2, 2): 3}


def test_older_tasks_are_not_tested_again_where_nobody_asks(finished, tmp_path):
    run(tiny.configure(retest=False), tmp_path, Silent())
    ours, theirs = (
        {(e.task, e.after): e.returns for e in read_run(folder).evaluations if e.phase == "final"}
        for folder in (tmp_path, finished)
    )
    assert ours == {(0, 0): theirs[0, 0], (1, 1): theirs[1, 1]}


def test_model_errors_come_with_every_test(finished):
    for test in read_run(finished).evaluations:
        assert test.one_step and test.h_step and min(test.one_step, test.h_step) > 0


def test_learner_sees_only_the_task_under_way(tmp_path, monkeypatch):
    counts = []
    original = Buffer.transitions

    def spy(self):
        counts.append(self.count)
        return original(self)

    monkeypatch.setattr(Buffer, "transitions", spy)
    run(tiny.configure(), tmp_path, Silent())
    assert len(counts) == 8  # three sessions and the consolidation, in both tasks
    for first, second, third, last in (counts[:4], counts[4:]):
        assert second == first + 6 and third == last == second + 6


def test_continuing_mode_resets_after_a_termination_only(tmp_path, monkeypatch):
    steps = 22
    events = []
    original_reset, original_step = tiny.Point.reset, tiny.Point.step

    def reset(self, **kwargs):
        events.append("reset")
        return original_reset(self, **kwargs)

    def step(self, action):
        state, reward, terminated, _, info = original_step(self, action)
        events.append("over" if terminated else "step")
        return state, reward, terminated, True, info  # says all along that its time is over

    monkeypatch.setattr(tiny.Point, "reset", reset)
    monkeypatch.setattr(tiny.Point, "step", step)
    monkeypatch.setattr(runner, "measure_random_policy", lambda suite, task: RandomPolicy(task, ()))
    config = tiny.configure(
        continuing=True, random_episodes=0, steps_per_task=steps, update_every=steps, eval_every=0
    )
    run(config, tmp_path, Silent())
    is_step = np.array(events) != "reset"
    first_task = events[: np.flatnonzero(is_step.cumsum() == steps)[0] + 1]
    assert first_task[0] == "reset"
    for before, now in itertools.pairwise(first_task):
        assert (now == "reset") == (before == "over")
    episodes = [e for e in read_run(tmp_path).episodes if e.task == 0]
    assert [e.episode for e in episodes] == list(range(1, len(episodes) + 1))
    assert len(episodes) >= steps // tiny.SPEC.episode_length


def test_run_without_random_episodes(tmp_path):
    config = tiny.configure(random_episodes=0, steps_per_task=22, update_every=11, eval_every=0)
    run(config, tmp_path, Silent())
    first, *later = (s for s in read_run(tmp_path).sessions if s.task == 0)
    assert first.loss is None
    assert all(session.loss is not None for session in later)


@pytest.mark.parametrize("when", [7, 20])
def test_interrupted_run_counts_its_seconds_together(tmp_path, when):
    config = tiny.configure()
    with pytest.raises(Interrupted):
        run(config, tmp_path, Interrupting(when), checkpoint_seconds=0)
    run(config, tmp_path, Silent())
    times = read_run(tmp_path).task_times
    assert [time.task for time in times] == [0, 1]
    assert np.isfinite([time.seconds for time in times]).all()


def test_whoever_films_sees_each_task_just_learnt(tmp_path):
    """Also after an interruption: the checkpoint at that moment says what has been learnt."""
    seen = []

    def film(task):
        seen.append((task, load(tmp_path).num_learnt))
        if len(seen) == 1:
            raise Interrupted

    config = tiny.configure()
    with pytest.raises(Interrupted):
        run(config, tmp_path, Silent(), after_task=film)
    run(config, tmp_path, Silent(), after_task=film)
    assert seen == [(0, 1), (0, 1), (1, 2)]


def test_videos_are_taken_at_the_moments_that_a_report_compares(tmp_path, monkeypatch):
    taken = []
    monkeypatch.setattr(video, "record_run", lambda run, task, path: taken.append(path.name))
    filming = video.Filming(tmp_path, num_tasks=2)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "task-0-after-1.mp4").touch()  # filmed before
    filming(0)
    filming(1)
    assert taken == ["task-0-after-0.mp4", "task-1-after-1.mp4"]
    assert not filming.problem


def test_training_episodes_can_begin_at_random(tmp_path, monkeypatch):
    """Two steps of each, other ones in every episode; tests begin with the planner."""
    done = []

    def noting(name, original):
        def act(self, *arguments):
            where = (self._purpose, self.steps_done)
            step = original(self, *arguments)
            done.append((*where, step.episode, name, float(step.action[0])))
            return step

        monkeypatch.setattr(Actor, name, act)

    noting("plan", Actor.plan)
    noting("explore", Actor.explore)
    run(tiny.configure(random_start=2, eval_every=0, random_episodes=1), tmp_path, Silent())
    trained = [one for one in done if one[0] == ("train", 0) and one[2] > 1]
    assert {(step, name) for _, step, _, name, _ in trained} == {
        (0, "explore"), (1, "explore"), (2, "plan"), (3, "plan"), (4, "plan"),
    }  # fmt: skip
    first_actions = [action for _, step, _, _, action in trained if step == 0]
    assert len(set(first_actions)) == len(first_actions) > 1
    tested = [name for purpose, *_, name, _ in done if purpose[0] == "test"]
    assert tested and set(tested) == {"plan"}


def hoping(optimism):
    """A run of a network that knows how sure it is."""
    config = tiny.configure(eval_every=0, optimism=optimism)
    return change(config, {"learner.network.head": "gaussian_beta"})


def test_every_other_training_episode_hopes_and_no_test_does(tmp_path, monkeypatch):
    planned = set()

    def note(self, model, *arguments):
        step = plan(self, model, *arguments)
        planned.add((self._purpose[0], step.episode % 2, type(model)))
        return step

    plan = Actor.plan
    monkeypatch.setattr(Actor, "plan", note)
    run(hoping(2.0), tmp_path, Silent())
    assert planned == {
        ("train", 1, DynamicsModel),
        ("train", 0, OptimisticModel),
        ("test", 0, DynamicsModel),
        ("test", 1, DynamicsModel),
    }


def test_interruptions_change_nothing_in_hopeful_episodes(tmp_path):
    config = hoping(2.0)
    run(config, tmp_path / "whole", Silent(), checkpoint_seconds=NEVER)
    assert run_with_interruptions(config, tmp_path / "stopped") >= 3
    tiny.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_point_head_has_nothing_to_hope_for(tmp_path):
    for optimism in (0.0, 2.0):
        run(tiny.configure(optimism=optimism), tmp_path / f"{optimism:g}", Silent())
    tiny.assert_same_run(tmp_path / "0", tmp_path / "2")


def test_the_first_update_of_a_session_is_recorded(tmp_path):
    """A session of one update is its own first; of several, the first is not the mean."""
    run(tiny.configure(updates=1, eval_every=0), tmp_path / "one", Silent())
    assert all(s.first_loss == s.loss is not None for s in read_run(tmp_path / "one").sessions)
    run(tiny.configure(updates=5, eval_every=0), tmp_path / "five", Silent())
    one, five = (read_run(tmp_path / name).sessions[0] for name in ("one", "five"))
    assert five.first_loss == pytest.approx(one.loss, rel=1e-5) and five.loss != five.first_loss


def test_training_episodes_can_be_cut_short(tmp_path):
    """More starts in a task's first half; after it and in tests they are as long as ever."""
    run(tiny.configure(steps_per_task=36, eval_every=0, episode_steps=2), tmp_path, Silent())
    episodes = [e for e in read_run(tmp_path).episodes if e.task == 0 and not e.random]
    ends = np.array([0, *(e.step for e in episodes)])
    starts, lengths = ends[:-1], np.diff(ends)
    assert lengths[starts < 16].max() == 2  # 1 where the point left its line
    assert lengths[starts >= 18].max() == 5


# Other runs on the same suite


@pytest.fixture(scope="module")
def quite_another(tmp_path_factory):
    """A run with another method, seed, planner and schedule, and the probes behind its errors."""
    config = tiny.configure(method="single", seed=5, eval_every=0, exploration_beta=1.0)
    planner = replace(config.planner, horizon=2, num_samples=6)  # pyright: ignore[reportCallIssue]
    folder = tmp_path_factory.mktemp("another")
    with watched_probes() as probes:
        run(replace(config, planner=planner), folder, Silent())
    return folder, probes


@contextlib.contextmanager
def watched_probes():
    """The probes on which models are judged, in the order in which they come into use."""
    seen, original = [], testing.probe_errors

    def watch(model, spec, probe):
        if not any(probe is one for one in seen):
            seen.append(probe)
        return original(model, spec, probe)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "probe_errors", watch)
        yield seen


def test_models_of_all_methods_are_judged_on_the_same_transitions(quite_another, tmp_path):
    with watched_probes() as ours:
        run(tiny.configure(), tmp_path, Silent())
    _, theirs = quite_another
    assert len(ours) == len(theirs) == 2  # tasks
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.states, other.states)
        np.testing.assert_array_equal(one.actions, other.actions)
    assert not np.array_equal(ours[0].actions, ours[1].actions)


def test_a_probe_depends_on_suite_and_task_and_is_true():
    suite = tiny.make_suite("tiny", tiny.Point)
    probe = testing.make_probe(suite, 0)
    assert probe.actions.shape == (testing.NUM_WINDOWS, tiny.SPEC.episode_length, 1)
    for other in (
        testing.make_probe(suite, 1),
        testing.make_probe(replace(suite, name="other"), 0),
    ):
        both = set(probe.actions.ravel().tolist()) & set(other.actions.ravel().tolist())
        assert both <= {-1.0, 1.0}  # what was clipped looks alike
    position, velocity = np.moveaxis(np.asarray(probe.states), -1, 0)
    np.testing.assert_allclose(position[:, 1:], (position + 0.2 * velocity)[:, :-1], atol=1e-6)
    pushes = (velocity[:, 1:] - 0.9 * velocity[:, :-1]) / 0.3
    assert np.abs(pushes - probe.actions[..., 0]).max() < 6 * tiny.NOISE


def test_a_probe_looks_where_something_happens():
    """Of an episode at rest but for one jump, the jump; of one that never moves, any step."""
    states, actions = np.zeros((101, 2), np.float32), np.zeros((100, 1), np.float32)
    still = Trajectory(actions, states.copy(), 0.0)
    states[50:, 0] = 1.0
    jump = Trajectory(actions, states, 0.0)
    shares = testing._eventfulness(tiny.SPEC, [(jump, t) for t in range(100)])
    assert shares[49] > 0.99
    shares = testing._eventfulness(tiny.SPEC, [(still, t) for t in range(100)])
    np.testing.assert_allclose(shares, 0.01)


def test_random_policy_is_measured_once_a_task_and_alike_in_every_run(finished, quite_another):
    ours, theirs = (read_run(folder).random_policies for folder in (finished, quite_another[0]))
    assert ours == theirs
    assert [policy.task for policy in ours] == [0, 1]
    count = tiny.FEW_EPISODES["RANDOM_EPISODES"]
    assert all(len(set(policy.returns)) == count for policy in ours)


def test_every_draw_of_a_run_is_one_of_its_own(tmp_path, monkeypatch):
    """Whatever its counters count (tasks, episodes, steps, sessions), no draw repeats another."""
    config, keys = tiny.configure(), {"plan": [], "update": []}

    def spy(owner, name):
        original = getattr(owner, name)

        def watch(*args, key, **options):
            keys[name].append(tuple(jax.random.key_data(key).tolist()))
            return original(*args, key=key, **options)

        monkeypatch.setattr(owner, name, watch)

    spy(type(config.planner), "plan")
    spy(type(config.learner), "update")
    run(config, tmp_path, Silent())
    assert len(keys["plan"]) > 2 * config.schedule.steps_per_task
    assert len(keys["update"]) == 6
    for drawn in keys.values():
        assert len(set(drawn)) == len(drawn)


def test_training_explores_and_tests_do_not(tmp_path, monkeypatch):
    config = tiny.configure(eval_every=0)
    planner, plan, horizons = type(config.planner), type(config.planner).plan, []

    def watch(self, *args, **options):
        horizons.append(self.horizon)
        return plan(self, *args, **options)

    monkeypatch.setattr(planner, "exploring", property(lambda self: replace(self, horizon=1)))
    monkeypatch.setattr(planner, "plan", watch)
    run(config, tmp_path, Silent())
    trained = config.num_tasks * config.schedule.steps_per_task
    assert config.planner.horizon > 1
    assert horizons.count(1) == trained < len(horizons)


def test_memory_is_counted_at_its_peak(finished):
    """The state, the buffer's arrays and what was kept of older tasks."""
    arrays, _ = checkpoint.load(finished / CHECKPOINT)
    state = sum(array.nbytes for array in checkpoint.section(arrays, "learner").values())
    schedule = tiny.PRESET.schedule
    rows = schedule.random_episodes * tiny.SPEC.episode_length + schedule.steps_per_task
    buffer = rows * (2 + 1 + 2) * 4 + 4  # float32 rows, and their count
    assert [cost.peak_bytes for cost in read_run(finished).costs] == [state + buffer] * 2


def test_old_transitions_count_towards_the_peak(tmp_path):
    run(tiny.configure(method="multitask"), tmp_path, Silent())
    first, second = read_run(tmp_path).costs
    assert first.peak_bytes is not None and second.peak_bytes is not None
    assert second.peak_bytes - first.peak_bytes == first.memory_bytes > 0
