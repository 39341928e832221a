"""A user's own suite: the shipped example, and every mistake told in one sentence."""

import importlib.util
import sys
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import hypercrl
from hypercrl.custom import register_suite, suite_from_envs
from hypercrl.encoding import Angle, Difference, Encoding
from hypercrl.errors import UserError
from hypercrl.presets import Preset, Schedule
from hypercrl.registry import load_plugin, suites

EXAMPLE = Path(__file__).parents[1] / "examples" / "pendulum_suite.py"


class Drift(gymnasium.Env):
    """A point that drifts with the action; spaces are the caller's choice."""

    def __init__(self, states=2, actions=1, bound=1.0, action_space=None):
        self.observation_space = Box(-np.inf, np.inf, (states,), np.float64)
        self.action_space = action_space or Box(-bound, bound, (actions,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.standard_normal(self.observation_space.shape)
        return self.state, {}

    def step(self, action):
        self.state = self.state + 0.1
        return self.state, 0.0, False, False, {}


def closeness(state, action, next_state):
    return -jnp.sum(next_state**2)


def drift_suite(envs=(Drift, Drift), reward=closeness, **options):
    return suite_from_envs("drift", envs, reward, **{"episode_length": 10, **options})


@pytest.fixture
def example():
    """The example as a fresh module; its registration is taken back afterwards."""
    spec = importlib.util.spec_from_file_location("pendulum_suite", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.suite
    suites._factories.pop("pendulum")


def test_example_is_short_and_known_by_name(example):
    assert len(EXAMPLE.read_text().splitlines()) < 30
    assert suites.get("pendulum").__module__ == "pendulum_suite"
    assert len(suites.get("pendulum")().tasks) == 3
    assert [task.name for task in suites.get("pendulum")(2).tasks] == ["g=10.0", "g=5.0"]
    with pytest.raises(UserError, match="1 to 3 tasks"):
        suites.get("pendulum")(4)


def test_example_says_what_its_environments_are(example):
    spec = example.spec
    assert (spec.state_dim, spec.action_dim, spec.episode_length) == (3, 1, 200)
    assert (spec.action_low, spec.action_high) == ((-2.0,), (2.0,))
    (preset,) = example.presets.values()
    assert preset.schedule.update_every % spec.episode_length == 0


def test_examples_reward_is_gymnasiums(example):
    for task in example.tasks:
        env = task.make(None)
        env.action_space.seed(0)
        state, _ = env.reset(seed=0)
        for _ in range(30):
            action = env.action_space.sample()
            next_state, paid, *_ = env.step(action)
            np.testing.assert_allclose(task.reward(state, action, next_state), paid, rtol=1e-3)
            state = next_state


def test_examples_tasks_differ_and_render(example):
    ends = []
    for task in example.tasks:
        env = task.make(None)
        env.reset(seed=0)
        ends.append([env.step(np.zeros(1, np.float32))[0] for _ in range(20)][-1])
    assert not np.allclose(ends[0], ends[1]) and not np.allclose(ends[0], ends[2])
    assert example.tasks[0].make("rgb_array").render_mode == "rgb_array"


def test_example_loads_as_a_plugin(registries):
    load_plugin(str(EXAMPLE))
    assert "pendulum" in suites.names()


def test_public_names_are_these_functions():
    assert hypercrl.suite_from_envs is suite_from_envs
    assert hypercrl.register_suite is register_suite


def test_options_reach_the_suite():
    encoding, preset = Encoding((Difference(1), Angle(1))), Preset(Schedule(updates=7))
    suite = drift_suite(
        encoding=encoding,
        preset=preset,
        task_names=("calm", "windy"),
        success=lambda states: True,
    )
    assert suite.spec.encoding == encoding
    assert next(iter(suite.presets.values())) is preset
    assert [task.name for task in suite.tasks] == ["calm", "windy"]
    assert suite.success is not None and suite.success(np.zeros((3, 2)))


def test_factory_is_called_for_every_environment():
    suite = drift_suite([lambda: Drift(), Drift])
    first, second = suite.tasks[0].make(None), suite.tasks[0].make("rgb_array")
    assert first is not second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"envs": []}, "at least one environment"),
        ({"envs": [lambda: Drift(action_space=Discrete(3))]}, "must be a Box and not Discrete"),
        ({"envs": ["FrozenLake-v1"]}, "observation space.*must be a Box"),
        ({"envs": [lambda: Drift(action_space=Box(-1, 1, (2, 2)))]}, r"vector.*\(2, 2\)"),
        ({"envs": [Drift, lambda: Drift(states=3)]}, "state_dim is 2 .* and 3"),
        ({"envs": [Drift, lambda: Drift(actions=2)]}, "action_dim is 1 .* and 2"),
        ({"envs": [Drift, lambda: Drift(bound=2.0)]}, "action_low"),
        ({"envs": [lambda: Drift(bound=np.inf)]}, "finite bounds"),
        ({"envs": ["NoSuchTask-v0"]}, "cannot make 'NoSuchTask-v0'"),
        ({"envs": ["no_such_module:Task-v0"]}, "cannot make 'no_such_module:Task-v0'"),
        ({"envs": [lambda: 1 / 0]}, "environment .* failed with ZeroDivisionError"),
        ({"envs": [lambda: sys.exit(0)]}, "environment .* failed with SystemExit"),
        ({"envs": [("Pendulum-v1", {"gg": 1})]}, "cannot make 'Pendulum-v1'"),
        ({"reward": lambda s, a, n: n}, r"one number and not an array of shape \(2,\)"),
        ({"reward": lambda s, a, n: jnp.nan * n[0]}, "is nan in episode 1, step 0"),
        ({"reward": lambda s, a, n: float(n[0])}, "JAX can trace"),
        ({"reward": lambda s, a: s[0]}, "function of .state, action, next_state."),
        ({"episode_length": None}, "no time limit"),
        ({"episode_length": 0}, "at least 1"),
        ({"encoding": Encoding.differences(5)}, "5 numbers .* have 2"),
        ({"task_names": ["one"]}, "2 environments but 1 task names"),
    ],
)
def test_mistake_is_told_in_one_sentence(change, message):
    with pytest.raises(UserError, match=message) as caught:
        drift_suite(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "two words"])
def test_name_must_do_as_a_folder(name):
    with pytest.raises(UserError, match="letters, digits"):
        suite_from_envs(name, [Drift], closeness, episode_length=10)


def test_builtin_name_is_taken():
    suite = suite_from_envs("cartpole", [Drift], closeness, episode_length=10)
    with pytest.raises(UserError, match="taken by a built-in"):
        register_suite(suite)


def test_documentation_shows_the_example_itself():
    documented = (EXAMPLE.parents[1] / "docs" / "suites.md").read_text()
    _, _, code = EXAMPLE.read_text().partition('"""\n\n')
    assert code in documented
