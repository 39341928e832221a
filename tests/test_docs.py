"""The guides: their code runs, their links lead somewhere, their examples work."""

import re
import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from hypercrl.cli import _commands
from hypercrl.experiment import shipped

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs").glob("*.md"))


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / guide).read_text(), re.DOTALL)


@pytest.fixture
def with_a_run(tmp_path, monkeypatch):
    """A folder with the run that the guides speak of."""
    run = tmp_path / "runs" / "cartpole-hypercrl-laptop-s0"
    shutil.copytree(shipped.find("cartpole"), run)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_links_lead_somewhere(guide):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", guide.read_text()):
        if not target.startswith("http"):
            assert (guide.parent / target).exists(), target


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_commands_exist(guide):
    code = "\n".join(re.findall(r"```(?:sh)?\n(.*?)```", guide.read_text(), re.DOTALL))
    assert set(re.findall(r"^hypercrl (\w+)", code, re.MULTILINE)) <= set(_commands())


def test_the_loop_of_the_robot_guide_runs(with_a_run, capsys):
    (loop,) = blocks("robot.md", "python")
    names = {}
    exec(loop.replace("PERIOD = 0.1", "PERIOD = 0.01").replace("STEPS = 30", "STEPS = 5"), names)
    assert names["controller"].info["rounds"] >= 1
    assert names["robot"].action_space.contains(names["action"])


def test_the_results_guide_runs(with_a_run, capsys):
    (code,) = (block for block in blocks("runs.md", "python") if "hypercrl.read(" in block)
    names = {}
    exec(code, names)
    assert names["rows"][0]["suite"] == "cartpole"
    assert np.isfinite(names["found"].returns).any()


class Node:
    """Of rclpy, what the example needs."""

    now = 0.0  # seconds

    def __init__(self, name):
        self.published, self.timers = [], []

    def declare_parameter(self, name, default):
        pass

    def get_parameter(self, name):
        return SimpleNamespace(value={"run": "cartpole", "task": "1"}[name])

    def get_logger(self):
        return SimpleNamespace(info=print, warning=print)

    def create_publisher(self, kind, topic, depth):
        return SimpleNamespace(publish=lambda message: self.published.append(message.data))

    def create_subscription(self, kind, topic, callback, depth):
        self.receive = callback

    def create_timer(self, period, callback):
        self.timers.append(callback)

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=1e9 * Node.now))


def test_the_ros_node_acts_on_fresh_observations_and_holds_still_otherwise(monkeypatch):
    class Float32MultiArray(SimpleNamespace):
        pass

    stubs = {
        "rclpy": {},
        "rclpy.node": {"Node": Node},
        "std_msgs": {},
        "std_msgs.msg": {"Float32MultiArray": Float32MultiArray},
    }
    for name, content in stubs.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    node = runpy.run_path(str(ROOT / "examples" / "ros2_node.py"))["ControllerNode"]()
    (control,) = node.timers
    control()
    assert node.published == [[0.0]]
    node.receive(Float32MultiArray(data=[0.0, 3.0, 0.1, 0.0]))
    control()
    assert node.published[1] != [0.0]
    Node.now += 1.0  # nothing came since
    control()
    assert node.published[2] == [0.0]
