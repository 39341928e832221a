"""A controller for robots: tasks, arrays, batches, warming up, budgets, planning ahead."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from hypercrl.contracts.sequence import COMPILATION
from hypercrl.dynamics.model import Network
from hypercrl.errors import UserError
from hypercrl.experiment import pacing, streams
from hypercrl.experiment.config import change
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.pacing import Pacing
from hypercrl.planning.icem import ICEM
from hypercrl.training import run as run_training

STATE = np.array([0.3, -0.2], np.float32)


def make_run(folder, **network):
    with tiny.registered():
        network = Network(hidden=(6,), scale_targets=True, **network)
        config = change(tiny.configure(eval_every=0), {"learner.network": network})
        run_training(config, folder, Silent())
    return folder


@pytest.fixture(scope="module")
def point_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("point"))


@pytest.fixture(scope="module")
def gaussian_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("gaussian"), head="gaussian")


@pytest.fixture(autouse=True)
def suites_known():
    with tiny.registered():
        yield


def test_a_task_is_known_by_its_number_and_by_its_name(point_run):
    assert load(point_run).tasks == ("gain 1", "gain -1")
    by_number, by_name = (load(point_run).act(STATE, task) for task in (1, "gain -1"))
    np.testing.assert_array_equal(by_number, by_name)
    assert not np.array_equal(by_number, load(point_run).act(STATE, 0))


@pytest.mark.parametrize(
    ("task", "message"),
    [("gain 7", "'gain 7' has been learnt; this run knows: 'gain 1', 'gain -1'"), (2, "Task 2")],
)
def test_an_unknown_task_is_told(point_run, task, message):
    with pytest.raises(UserError, match=message):
        load(point_run).act(STATE, task)


@pytest.mark.parametrize("convert", [list, jnp.asarray, np.float64, memoryview])
def test_an_observation_may_be_of_any_array_type(point_run, convert):
    action = load(point_run).act(convert(STATE), 0)
    assert isinstance(action, np.ndarray) and action.dtype == np.float32
    np.testing.assert_array_equal(action, load(point_run).act(STATE, 0))


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 2)), [0.0, np.nan], "up"])
def test_what_is_no_observation_is_told(point_run, wrong):
    with pytest.raises(UserError, match="2 finite numbers"):
        load(point_run).act(wrong, 0)


def test_rows_of_a_batch_are_planned_for_apart(point_run):
    """Each as the planner alone would, with its own key and its own plan of the step before."""
    controller = load(point_run)
    planner, task = controller.config.planner, controller.suite.tasks[0]
    batch = np.stack([STATE, 2 * STATE, -STATE])
    starts = [planner.init(controller.suite.spec)] * 3
    for step in range(2):
        actions = controller.act(batch, 0)
        assert actions.shape == (3, 1)
        keys = jax.random.split(streams.key(controller.config.seed, "act", step), 3)
        plans = [
            planner.plan(start, controller.model(0), task.reward, row, key=key)
            for start, row, key in zip(starts, batch, keys, strict=True)
        ]
        starts = [plan.state for plan in plans]
        np.testing.assert_allclose(actions, np.stack([plan.action for plan in plans]), atol=1e-5)


@pytest.mark.parametrize("batch", [None, 2])
def test_nothing_is_compiled_after_warming_up(point_run, batch):
    controller = load(point_run, budget=10.0, background=True)
    assert controller.warm_up(batch=batch) > 0
    compiled = []

    def count(event, duration, **_):
        compiled.extend([event] if event == COMPILATION else [])

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        states = STATE if batch is None else np.stack([STATE] * batch)
        for _ in range(3):
            action = controller.act(states, 1)
            controller.uncertainty(states, action, 1)
        controller.reset()
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert compiled == []


def test_warming_up_changes_no_action(point_run):
    warm = load(point_run)
    warm.warm_up()
    np.testing.assert_array_equal(warm.act(STATE, 0), load(point_run).act(STATE, 0))


def test_a_reset_with_a_seed_starts_all_over(point_run):
    controller = load(point_run)
    first = [controller.act(STATE, 0) for _ in range(3)]
    controller.reset(seed=controller.config.seed)
    again = [controller.act(STATE, 0) for _ in range(3)]
    np.testing.assert_array_equal(first, again)
    controller.reset()  # forgets the plan alone: what is drawn goes on
    assert not np.array_equal(controller.act(STATE, 0), first[0])


class TestBudget:
    """Fewer rounds rather than late."""

    @pytest.fixture
    def clock(self, monkeypatch):
        """What `perf_counter` says is the only element of this list."""
        now = [0.0]
        monkeypatch.setattr(pacing.time, "perf_counter", lambda: now[0])
        return now

    def plan(self, pace, clock, seconds_a_round):
        info, planner = {}, pace.choose()
        with pace.measured(planner, info):
            clock[0] += seconds_a_round * planner.num_iterations
        return info

    def test_rounds_follow_the_processor(self, clock):
        pace = Pacing(ICEM(num_iterations=4), budget=0.1)
        assert self.plan(pace, clock, 0.03) == {"seconds": 0.12, "late": True, "rounds": 4}
        assert self.plan(pace, clock, 0.03)["rounds"] == 3
        assert self.plan(pace, clock, 0.06)["late"]
        slow = [self.plan(pace, clock, 0.06) for _ in range(3)]
        assert all(info["rounds"] == 1 and not info["late"] for info in slow)
        for _ in range(pacing.REMEMBERED):
            self.plan(pace, clock, 0.01)
        assert self.plan(pace, clock, 0.01)["rounds"] == 4

    def test_one_round_is_the_least(self, clock):
        pace = Pacing(ICEM(num_iterations=2), budget=0.1)
        self.plan(pace, clock, 5.0)
        assert self.plan(pace, clock, 5.0) == {"seconds": 5.0, "late": True, "rounds": 1}

    def test_without_a_budget_every_plan_is_whole(self, clock):
        pace = Pacing(ICEM(num_iterations=4), budget=None)
        found = [self.plan(pace, clock, 5.0) for _ in range(2)]
        assert all(info["rounds"] == 4 and not info["late"] for info in found)

    @pytest.mark.parametrize("budget", [0, -1.0, float("nan")])
    def test_an_impossible_budget_is_refused(self, budget):
        with pytest.raises(UserError, match="time budget"):
            Pacing(ICEM(), budget)

    def test_a_controller_keeps_it(self, point_run):
        hurried, calm = (load(point_run, budget=budget) for budget in (1e-9, 60.0))
        for controller in (hurried, calm):
            controller.warm_up(0)
            controller.act(STATE, 0)
            controller.act(STATE, 0)
        assert (hurried.info["rounds"], calm.info["rounds"]) == (
            1,
            tiny.PRESET.planners[0].num_iterations,
        )
        assert hurried.info["late"] and not calm.info["late"]


def test_planning_ahead_equals_planning_where_the_model_is_right(point_run):
    with load(point_run, background=True) as ahead:
        waiting, state = load(point_run), STATE
        for _ in range(4):
            action = ahead.act(state, 0)
            np.testing.assert_array_equal(action, waiting.act(state, 0))
            state = np.asarray(eqx.filter_jit(waiting.model(0))(state, action))


def test_planning_ahead_starts_from_what_the_model_expects(point_run):
    with load(point_run, background=True) as ahead:
        waiting = load(point_run)
        first = ahead.act(STATE, 0)
        waiting.act(STATE, 0)
        expected = np.asarray(eqx.filter_jit(waiting.model(0))(STATE, first))
        np.testing.assert_array_equal(ahead.act(-STATE, 0), waiting.act(expected, 0))
        ahead.reset()  # the plan made ahead is forgotten too
        assert ahead._ahead is None


def test_a_gaussian_head_knows_its_spread(gaussian_run):
    controller = load(gaussian_run)
    one = controller.uncertainty(STATE, [0.1], 0)
    assert one.std.shape == (2,) and (one.std > 0).all()
    many = controller.uncertainty(np.stack([STATE, 100 * STATE]), [[0.1], [0.1]], "gain 1")
    np.testing.assert_allclose(many.std[0], one.std, rtol=1e-5)
    assert many.distance[1] > 10 * many.distance[0]


def test_a_point_head_says_that_it_knows_nothing(point_run):
    found = load(point_run).uncertainty(STATE, [0.1], 0)
    assert found.std is None and found.distance.shape == ()


def test_an_action_too_few_is_told(point_run):
    with pytest.raises(UserError, match="one action for each observation"):
        load(point_run).uncertainty(np.stack([STATE, STATE]), [0.1], 0)
