"""The contract that every registered suite keeps, in every one of its tasks.

A new suite is tested by being registered; nothing here names one.
"""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from hypercrl.contracts import suite as contract
from hypercrl.contracts.suite import go_on, run, sample_actions
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.environments import environment_id, make_environment, register_environments
from hypercrl.errors import UserError
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.registry import planners, suites

SUITES = suites.names()
TASKS = [(suite, task) for suite in SUITES for task in range(len(suites.get(suite)().tasks))]
NUM_ACTIONS = 500  # in a suite's first task
FEWER_ACTIONS = 250  # in the others, which differ in a number or two
LONG = 20  # tasks of a long sequence


@pytest.fixture(params=SUITES)
def suite(request):
    return suites.get(request.param)()


@pytest.fixture(params=TASKS, ids=lambda pair: f"{pair[0]}-{pair[1]}", scope="module")
def trial(request):
    """Random and extreme actions in one task."""
    name, task = request.param
    return contract.Trial(suites.get(name)(), task, FEWER_ACTIONS if task else NUM_ACTIONS)


def test_there_are_suites():
    assert set(SUITES) == set(suites.builtin_modules)


@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.__name__)
def test_promise_is_kept(trial, promise):
    promise(trial)


def test_the_reward_varies_and_is_the_environments_own(trial):
    """Or the promise that it is the known one would be kept by paying nothing."""
    assert np.std(trial.steps.rewards) > 0
    assert trial.make().reward is trial.task.reward


def test_episodes_have_the_promised_length(trial):
    ends = np.flatnonzero(trial.steps.terminated | trial.steps.truncated) + 1
    length = trial.suite.spec.episode_length
    np.testing.assert_array_equal(ends, np.arange(length, len(trial.actions) + 1, length))


def test_random_actions_do_not_succeed(trial):
    length, success = trial.suite.spec.episode_length, trial.suite.success
    episode = np.concatenate([trial.steps.states[:1], trial.steps.next_states[:length]])
    assert success is None or success(episode) is False


def test_observations_are_of_32_bits_and_the_state_can_be_saved(trial):
    env = trial.make()
    assert env.reset(seed=0)[0].dtype == np.float32
    assert env.get_state()


def test_later_episodes_start_where_the_first_ones_did(suite):
    env = suite.tasks[0].make(None)
    env.reset(seed=0)
    starts = np.array([env.reset()[0] for _ in range(20)])
    run(env, [env.action_space.low] * 20)
    later = np.array([env.reset()[0] for _ in range(20)])
    # Five standard errors of the difference between two means of twenty draws.
    bound = 5 * starts.std(0) * np.sqrt(2 / 20)
    assert (np.abs(starts.mean(0) - later.mean(0)) <= bound + 1e-6).all()


def test_restored_state_keeps_the_reward_and_the_time_limit(suite):
    env, other = (suite.tasks[0].make(None) for _ in range(2))
    length = suite.spec.episode_length
    actions = sample_actions(env, length)
    env.reset(seed=0)
    go_on(env, actions[:-1])
    other.reset(seed=5)
    other.set_state(env.get_state())
    _, reward, _, truncated, _ = env.step(actions[-1])
    _, other_reward, _, other_truncated, _ = other.step(actions[-1])
    assert truncated and other_truncated
    assert reward == other_reward


def test_actions_beyond_the_bounds_are_clipped(suite):
    env = suite.tasks[0].make(None)
    high = env.action_space.high
    env.reset(seed=0)
    inside = env.step(high)
    env.reset(seed=0)
    beyond = env.step(1e6 * high)
    np.testing.assert_array_equal(inside[0], beyond[0])
    assert inside[1] == beyond[1]


@pytest.mark.slow
def test_ten_thousand_steps_allocate_nothing_that_stays(suite):
    env = suite.tasks[0].make(None)
    actions = sample_actions(env, 1_000)

    def play(rounds):
        for _ in range(rounds):
            env.reset(seed=0)
            go_on(env, actions)

    play(1)
    before = resident_bytes()
    play(10)
    # A leak of a kilobyte a step would be 10 MB; tracing itself takes as much, so it comes after.
    assert resident_bytes() - before < 4_000_000
    tracemalloc.start()
    try:
        play(1)
        before = tracemalloc.get_traced_memory()[0]
        play(1)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


def resident_bytes() -> int:
    """Memory in use by this process as the kernel counts it; 0 where it does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 if status.exists() else 0


@pytest.mark.parametrize("render_mode", ["human", "depth"])
def test_unknown_render_mode_is_told(suite, render_mode):
    with pytest.raises(UserError, match="render mode"):
        suite.tasks[0].make(render_mode)


def test_picture_shows_a_scene_that_moves(suite):
    env = suite.tasks[1].make("rgb_array")
    env.reset(seed=0)
    before = env.render()
    go_on(env, [env.action_space.high] * 10)
    after = env.render()
    assert before.dtype == np.uint8
    assert before.ndim == 3 and before.shape[2] == 3
    assert before.std() > 5  # neither black nor blank
    assert np.mean(np.any(before != after, axis=2)) > 1e-3
    assert suite.tasks[0].make(None).render() is None


def test_presets_serve_every_planner(suite):
    assert next(iter(suite.presets)) == "laptop"
    assert "paper" in suite.presets
    for preset in suite.presets.values():
        horizon = preset.planners[0].horizon
        for name in planners.names():
            planner = preset.planner(name)
            assert planner in preset.planners or planner == planners.get(name)(horizon=horizon)


def test_paper_preset_is_faithful(suite):
    paper = suite.presets["paper"]
    learner = paper.learner("hypercrl")
    assert type(paper.planner()) is CEM and paper.planner().num_iterations == 5
    assert type(learner.hypernet) is FullHypernet and not learner.network.scale_targets
    assert learner.lookahead and learner.training == Training(batch_size=100)
    assert learner.learning_rate == 1e-4 and paper.learner("finetune").learning_rate == 1e-3
    assert paper.schedule.update_every % suite.spec.episode_length == 0  # learns between episodes


def test_laptop_hypernetwork_is_small(suite):
    """Smaller than the network that it generates; twice as large at most where that is deep."""
    learner = suite.presets["laptop"].learner("hypercrl")
    state = learner.init(suite.spec, 5, key=jax.random.key(0))
    limit = 2 if len(learner.network.hidden) > 2 else 1
    assert learner.num_parameters(state) < limit * learner.network.layout(suite.spec).num_weights


@pytest.mark.parametrize("name", SUITES)
def test_long_sequences_begin_with_the_short_one(name):
    short, long = suites.get(name)(), suites.get(name)(LONG)
    names = [task.name for task in long.tasks]
    assert len(set(names)) == LONG
    assert names[: len(short.tasks)] == [task.name for task in short.tasks]
    assert names == [task.name for task in suites.get(name)(LONG).tasks]
    for task in long.tasks[len(short.tasks) :]:
        env = task.make(None)
        assert np.isfinite(run(env, sample_actions(env, 10)).next_states).all()


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("num_tasks", [0, -1, 10_000])
def test_impossible_number_of_tasks_is_told(name, num_tasks):
    with pytest.raises(UserError, match=f"tasks.*{num_tasks}"):
        suites.get(name)(num_tasks)


# States are unbounded by nature; everything else that Gymnasium's checker warns of is an error.
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is:UserWarning")
@pytest.mark.parametrize("name", SUITES)
def test_gymnasium_accepts_the_environment(name):
    register_environments()
    env = gymnasium.make(environment_id(name), task=1, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", SUITES)
def test_gymnasium_makes_the_task_asked_for(name):
    register_environments()
    last = LONG - 1
    made = gymnasium.make(environment_id(name), task=last, num_tasks=LONG)
    own = suites.get(name)(LONG).tasks[last].make(None)
    actions = sample_actions(own, 10)
    np.testing.assert_array_equal(run(made, actions).next_states, run(own, actions).next_states)


@pytest.mark.parametrize("task", [-1, 99])
def test_unknown_task_is_told(suite, task):
    with pytest.raises(UserError, match=f"no task {task}"):
        make_environment(suite.name, task=task)


@pytest.mark.parametrize("imports", ["hypercrl, gymnasium", "gymnasium, hypercrl"])
def test_importing_hypercrl_registers_environments_and_stays_light(imports):
    code = (
        f"import sys, {imports}\n"
        "assert 'hypercrl/HalfCheetah-v0' in gymnasium.registry\n"
        "assert not {'jax', 'mujoco'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_gymnasium_imports_hypercrl_by_itself():
    code = (
        "import gymnasium\n"
        "assert gymnasium.make('hypercrl:hypercrl/Cartpole-v0').action_space.shape == (1,)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
