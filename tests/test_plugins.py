"""A suite, a method and a planner from outside the package: one file each, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from hypercrl import registry
from hypercrl.cli import main
from hypercrl.commands.arguments import one_plugin_a_flag
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import read_run
from hypercrl.registry import learners, load_plugin, planners, suites
from hypercrl.sweep.plan import plan_runs, read_selections
from hypercrl.trust import is_trusted

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
"""Stays in the middle, carefully."""
from dataclasses import dataclass
import jax.numpy as jnp
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner


@planners.register("lazy")
@dataclass(frozen=True)
class Lazy(Planner):
    horizon: int = 2

    def init(self, spec):
        return (jnp.asarray(spec.action_low) + jnp.asarray(spec.action_high)) / 2

    def plan(self, state, model, reward, observation, *, key):
        return Plan(state, state, {})

    @property
    def evaluations_per_action(self):
        return 0
'''


@pytest.fixture
def plugins(tmp_path, registries):
    """The files of a suite, a method and a planner."""
    paths = []
    for name, text in (("line", SUITE), ("my_method", METHOD), ("lazy", PLANNER)):
        paths.append(tmp_path / f"plugin_{name}.py")
        paths[-1].write_text(text)
    return [str(path) for path in paths]


def forget_plugins():
    """As in a process that has just started."""
    registry._plugins.clear()
    for known, name in ((suites, "line"), (learners, "my_method"), (planners, "lazy")):
        known._factories.pop(name, None)


def test_one_file_each_is_enough_and_the_run_remembers_them(plugins, tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", "line", "my_method", "--planner", "lazy", "--plugin", *plugins, f"--out={out}"])
    found = read_run(out)
    assert found.complete
    assert (found.suite, found.method, found.config.planner) == ("line", "my_method", "lazy")
    assert list(found.config.plugins) == plugins

    forget_plugins()
    capsys.readouterr()
    main(["list"])
    assert "my_method" not in capsys.readouterr().out
    main(["test", str(out), "--episodes", "1"])
    assert "gain 2" in capsys.readouterr().out
    main(["list"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("line", "my_method", "lazy"))


def test_a_plugin_that_has_gone_is_named_unless_another_brings_the_names(plugins, tmp_path, capsys):
    out, moved = tmp_path / "run", tmp_path / "elsewhere.py"
    main(["train", "line", "finetune", "--plugin", plugins[0], "--out", str(out)])
    forget_plugins()
    Path(plugins[0]).rename(moved)
    with pytest.raises(SystemExit):
        main(["test", str(out), "--episodes", "1"])
    assert f"{plugins[0]}' cannot be imported" in capsys.readouterr().err
    main(["test", str(out), "--episodes", "1", "--plugin", str(moved)])


def test_a_run_from_somebody_else_runs_no_code_that_you_have_not_named(
    plugins, tmp_path, monkeypatch, capsys
):
    out, mark = tmp_path / "run", tmp_path / "it-ran"
    main(["train", "line", "finetune", "--plugin", plugins[0], "--out", str(out)])
    forget_plugins()
    with open(plugins[0], "a") as file:
        file.write(f"\nopen({str(mark)!r}, 'w').close()\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of-somebody-else"))
    for command in (["test", str(out)], ["play", str(out)], ["export", str(out), "e"]):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 2
        assert "never named here; add --plugin if you trust it" in capsys.readouterr().err
    assert not mark.exists()
    main(["test", str(out), "--episodes", "1", "--plugin", plugins[0]])
    assert mark.exists() and is_trusted(plugins[0])


def test_where_nothing_can_be_remembered_plugins_work_all_the_same(plugins, tmp_path, monkeypatch):
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a-file"))
    load_plugin(plugins[0])
    assert "line" in suites.names() and not is_trusted(plugins[0])


@pytest.mark.parametrize(
    "given",
    [
        ["--plugin", "a.py", "--plugin", "b.py", "SUITE"],
        ["--plugin", "a.py", "b.py", "SUITE"],
        ["SUITE", "--plugin", "a.py,b.py"],
        ["--plugin=a.py", "b.py", "SUITE"],
    ],
)
def test_several_plugins_may_be_given_in_any_way(given):
    spread = one_plugin_a_flag(given)
    assert [one for one in spread if one != "SUITE"] == ["--plugin", "a.py", "--plugin", "b.py"]
    assert "SUITE" in spread


def test_what_follows_a_module_is_not_taken_for_another():
    assert one_plugin_a_flag(["--plugin", "mine", "RUN", "--task", "2"]) == [
        *("--plugin", "mine", "RUN", "--task", "2")
    ]


@pytest.mark.parametrize(
    "command", ["train", "sweep", "play", "test", "conflict", "report", "list"]
)
def test_every_command_takes_plugins(command, capsys):
    words = ["cartpole", "hypercrl"] if command == "train" else []
    with pytest.raises(SystemExit) as stop:
        main([command, *words, "--help"])
    assert stop.value.code == 0
    assert "--plugin" in capsys.readouterr().out


def test_a_sweep_file_names_plugins_from_its_own_folder(plugins, tmp_path, capsys):
    file = tmp_path / "sweep.yaml"
    names = [Path(plugin).name for plugin in plugins[:2]]
    file.write_text(f"suite: line\nmethod: my_method\nplugin: {names}\n")
    (run,) = plan_runs(read_selections(file, {}))
    assert (run.config.suite, run.config.method) == ("line", "my_method")
    assert list(run.config.to_stored().plugins) == plugins[:2]


def test_a_plugin_is_known_by_its_path(registries, tmp_path):
    """Not by its name, which another one or one of Python's own modules may have."""
    for folder in ("one", "two"):
        path = tmp_path / folder / "json.py"
        path.parent.mkdir()
        path.write_text(METHOD.replace("my_method", f"method_{folder}"))
        load_plugin(str(path))
        load_plugin(str(path))  # again changes nothing
    assert {"method_one", "method_two"} <= set(learners.names())
    assert "dumps" in vars(sys.modules["json"])


def test_a_name_that_is_taken_says_by_which_file(registries, tmp_path):
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for path in (first, second):
        path.write_text(METHOD)
    load_plugin(str(first))
    with pytest.raises(UserError, match=f"'my_method' is already taken by {first}"):
        load_plugin(str(second))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_like_this", "No module named 'nothing_like_this'"),
        ("x = 1\nx.y", "AttributeError in line 2: 'int' object"),
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit in line 1: 0"),
    ],
)
def test_a_plugin_that_fails_is_told_in_one_sentence(registries, tmp_path, text, message):
    path = tmp_path / "broken.py"
    path.write_text(text)
    for _ in range(2):  # a half-imported module is not taken for a whole one
        with pytest.raises(UserError, match=f"broken.py' cannot be imported: {message}"):
            load_plugin(str(path))


@pytest.mark.parametrize("plugin", ["no_such_module", "no_such_file.py"])
def test_a_plugin_that_cannot_be_imported(plugin, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "cartpole", "hypercrl", "--plugin", plugin])
    assert exit_info.value.code == 2
    assert plugin in capsys.readouterr().err


@pytest.fixture
def installed(tmp_path, monkeypatch, registries):
    """A package on the path that offers a method as an entry point, and a broken one."""
    (tmp_path / "their_package.py").write_text(
        METHOD.replace('@learners.register("my_method")', "")
    )
    about = tmp_path / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[hypercrl.learners]\ntheirs = their_package:MyMethod\nbroken = their_package:gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(vars(learners), "_installed", raising=False)
    yield
    del learners._installed


def test_an_installed_package_is_found(installed, capsys):
    assert {"theirs", "broken"} <= set(learners.names())
    assert learners.get("theirs").__name__ == "MyMethod"
    with pytest.raises(UserError, match="entry point 'broken = their_package:gone'"):
        learners.get("broken")
    main(["list", "methods"])  # somebody else's fault does not hide the others
    listed = capsys.readouterr().out
    assert "theirs" in listed and "cannot be imported" in listed


def test_the_registries_keep_their_names_whatever_was_imported_before():
    code = (
        "import hypercrl.learners.ewc as ewc, hypercrl.suites.cartpole\n"
        "assert hypercrl.learners.get('ewc') is ewc.EWC is hypercrl.learners.ewc.EWC\n"
        "assert 'cartpole' in hypercrl.suites.names()\n"
        "from hypercrl import learners\n"
        "assert learners is hypercrl.learners\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
