"""A suite, a method and a planner from outside the package: one file each, and nothing else."""

import pytest

from hypercrl.cli import main
from hypercrl.experiment.run_folder import read_run
from hypercrl.registry import learners, planners, suites

SUITE = '''
"""A point on a line."""
import gymnasium
import jax.numpy as jnp
import numpy as np
from hypercrl.encoding import Encoding
from hypercrl.registry import suites
from hypercrl.dynamics.model import Network
from hypercrl.planning.cem import CEM
from hypercrl.presets import Preset, Schedule
from hypercrl.types import Spec, Suite, Task


class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, gain):
        self.gain = gain

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=1).astype(np.float32)
        return self.x, {}

    def step(self, action):
        self.x = (self.x + self.gain * action).astype(np.float32)
        return self.x, 0.0, False, False, {}


def reward(state, action, next_state):
    return -jnp.abs(next_state[0])


@suites.register("line")
def line(num_tasks=2):
    spec = Spec(1, 1, (-1.0,), (1.0,), 5, Encoding.differences(1))
    preset = Preset(
        schedule=Schedule(
            random_episodes=2, steps_per_task=10, update_every=5, updates=3, eval_episodes=1
        ),
        network=Network(hidden=(8,)),
        planners=(CEM(horizon=2, num_samples=8, num_elites=2),),
    )
    tasks = tuple(
        Task(f"gain {g}", lambda mode, g=g: Line(g), reward) for g in range(1, num_tasks + 1)
    )
    return Suite("line", spec, tasks, {"laptop": preset})
'''

METHOD = '''
"""Fine-tuning under another name."""
from dataclasses import dataclass
from hypercrl.dynamics.multi_head import MultiHead
from hypercrl.learners.baseline import BaselineLearner, Parts
from hypercrl.registry import learners


@learners.register("my_method")
@dataclass(frozen=True)
class MyMethod(BaselineLearner):
    @property
    def parts(self):
        return Parts(MultiHead(self.network))
'''

PLANNER = '''
"""Does nothing, carefully."""
from dataclasses import dataclass
import jax.numpy as jnp
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner


@planners.register("lazy")
@dataclass(frozen=True)
class Lazy(Planner):
    horizon: int = 2

    def init(self, spec):
        return jnp.zeros(spec.action_dim)

    def plan(self, state, model, reward, observation, *, key):
        return Plan(state, state, {})

    @property
    def evaluations_per_action(self):
        return 0
'''


@pytest.fixture
def plugins(tmp_path):
    flags = []
    for name, text in (("line", SUITE), ("my_method", METHOD), ("lazy", PLANNER)):
        path = tmp_path / f"plugin_{name}.py"
        path.write_text(text)
        flags += ["--plugin", str(path)]
    yield flags
    for registry, name in ((suites, "line"), (learners, "my_method"), (planners, "lazy")):
        registry._factories.pop(name, None)


def test_one_file_each_is_enough(plugins, tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", "line", "my_method", "--planner", "lazy", *plugins, "--out", str(out)])
    found = read_run(out)
    assert found.complete
    assert (found.suite, found.method, found.config.planner) == ("line", "my_method", "lazy")
    main(["list"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("line", "my_method", "lazy"))


def test_a_plugin_that_cannot_be_imported(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "cartpole", "hypercrl", "--plugin", "no_such_module"])
    assert exit_info.value.code == 2
    assert "no_such_module" in capsys.readouterr().err
