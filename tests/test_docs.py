"""The guides: their code runs, their links lead somewhere, their examples work."""

import functools
import importlib
import io
import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import pytest

import hypercrl
from costs import costs_page
from fill_tables import filled, pictures
from hypercrl.cli import _commands
from hypercrl.commands.arguments import output_of
from hypercrl.experiment import shipped
from hypercrl.experiment.config import change, resolve
from hypercrl.registry import learners, suites

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


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


@functools.cache
def flags(command: str, *chosen: str) -> set[str]:
    """What a command's help offers."""

    def show(args):
        importlib.import_module(f"hypercrl.commands.{command}").run(args)

    return set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", output_of(show, [*chosen, "--help"])))


def shell_commands(guide: Path) -> list[list[str]]:
    code = "\n".join(re.findall(r"^```sh\n(.*?)^```", guide.read_text(), re.DOTALL | re.M))
    lines = (shlex.split(line, comments=True) for line in code.replace("\\\n", " ").splitlines())
    return [words[1:] for words in lines if words[:1] == ["hypercrl"]]


@pytest.mark.parametrize("guide", [ROOT / "README.md", *GUIDES], ids=lambda path: path.name)
def test_flags_exist(guide):
    """Those of `train` depend on the suite, the method and some of the flags themselves."""
    for command, *words in shell_commands(guide):
        chosen = []
        if command == "train":
            known = words[0] in suites.names() and words[1] in learners.names()
            chosen = words[:2] if known else ["cartpole", "hypercrl"]
            for flag in {"--preset", "--planner", "--hypernet", "--regulariser"} & set(words):
                chosen += [flag, words[words.index(flag) + 1]]
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= flags(command, *chosen) | {"--debug"}, words


@pytest.fixture
def planned_only(monkeypatch):
    """`train` and `sweep` go as far as the runs that they would make."""
    made = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("hypercrl.training.run", lambda config, *_, **__: made.append(config))
    monkeypatch.setattr("hypercrl.commands.sweep._conclude", lambda *_: None)
    monkeypatch.setattr("hypercrl.sweep.location.open_location", lambda out: io.StringIO())

    def carry_out(plan, *_):
        made.extend(run.config for run in plan)
        return []

    monkeypatch.setattr("hypercrl.commands.sweep._carry_out", carry_out)
    return made


@pytest.mark.parametrize("guide", [ROOT / "README.md", *GUIDES], ids=lambda path: path.name)
def test_commands_that_train_are_understood(guide, planned_only, monkeypatch):
    """Those that need nothing but the package; what a plugin brings is tried beside its code."""
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    for command, *words in shell_commands(guide):
        files = [ROOT / word for word in words if word.endswith((".yaml", ".json"))]
        own = "--plugin" in words or "SUITE" in words or not all(path.exists() for path in files)
        if command in ("train", "sweep") and not own:
            importlib.import_module(f"hypercrl.commands.{command}").run(words)
            assert planned_only, words
            planned_only.clear()


@pytest.mark.parametrize("guide", [ROOT / "README.md", *GUIDES], ids=lambda path: path.name)
def test_tables_say_what_the_records_say(guide):
    text = guide.read_text()
    assert filled(text) == text


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_pictures_show_what_the_records_say(guide):
    for path, png in pictures(guide.read_text()):
        shown, drawn = (plt.imread(source, format="png") for source in (path, io.BytesIO(png)))
        # Edges are smoothed by floating-point sums, which may round differently elsewhere.
        np.testing.assert_allclose(shown, drawn, atol=3 / 255, err_msg=f"{path.name} is outdated")


def all_the_code(guide: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", guide.read_text(), re.DOTALL | re.M))


WITH_CODE = [path for path in GUIDES if all_the_code(path)]


@pytest.fixture
def trained_at_once(with_a_run, monkeypatch):
    """`train` and `extend` look at what they are told, and find a run that is there."""

    def train(suite, method, *, num_tasks=None, seed=0, schedule=None):
        settings = {f"schedule.{name}": value for name, value in (schedule or {}).items()}
        change(resolve(suite, method, num_tasks=num_tasks, seed=seed), settings)
        return Path("runs/cartpole-hypercrl-laptop-s0")

    monkeypatch.setattr(hypercrl, "train", train, raising=False)
    monkeypatch.setattr(hypercrl, "extend", lambda run, num_tasks: run, raising=False)


@pytest.fixture
def heavier_pusher():
    """The environment of one's own that the guide on lifetimes goes on with."""
    name = "MyPusher-v0"
    gymnasium.register(name, lambda mass, render_mode: gymnasium.make("hypercrl/Pusher-v0"))
    yield
    del gymnasium.registry[name]


@pytest.mark.parametrize("guide", WITH_CODE, ids=lambda path: path.name)
def test_code_runs(guide, registries, trained_at_once, heavier_pusher, capsys):
    """All of a guide's code in its order: what one block defines, the next may use."""
    names = {"__name__": "guide", "np": np, "hypercrl": hypercrl, "observation": np.zeros(4)}
    code = all_the_code(guide).replace("PERIOD = 0.1", "PERIOD = 0.01")
    exec(compile(code.replace("STEPS = 30", "STEPS = 5"), str(guide), "exec"), names)


@pytest.mark.slow  # half a minute; `make docs` runs it too
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_tutorials_run(notebook, registries, monkeypatch, capsys):
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    monkeypatch.chdir(notebook.parent)
    names = {"__name__": "tutorial"}
    for number, text in enumerate(code):
        exec(compile(text, f"{notebook.name}, cell {number + 1}", "exec"), names)
    plt.close("all")


def test_tutorials_were_run_in_order_and_without_an_error():
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text())["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
        outputs = [output for cell in code for output in cell["outputs"]]
        assert {output["output_type"] for output in outputs} <= {
            "stream",
            "execute_result",
            "display_data",
        }


def test_every_page_is_in_the_sites_navigation():
    """And every page that the navigation names is there, or is made from something else."""
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r": (\S+\.md)$", text, re.MULTILINE))
    docs = ROOT / "docs"
    there = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    tutorials = {str(path.relative_to(docs).with_suffix(".md")) for path in NOTEBOOKS}
    made = {"changelog.md", "contributing.md", "security.md", "ros2_node.md", "costs.md"}
    assert named == there | tutorials | made | {"reference/commands.md"}


def test_what_a_table_costs_is_computed_from_its_records(tmp_path):
    run = tmp_path / "results" / "table" / "cartpole-hypercrl-laptop-s0"
    shutil.copytree(shipped.find("cartpole"), run)
    cost = {"step": 1, "total_step": 1, "parameters": 1, "bytes_per_task": 1, "memory_bytes": 0}
    cost |= {"kind": "cost", "task": 0, "evaluations_per_action": 1, "peak_bytes": 3_000_000}
    with (run / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps(cost) + "\n")
    times = {"planning": 1.0, "simulation": 1.0, "training": 1.0, "evaluation": 1.0}
    lines = [{"kind": "task", "task": k, "seconds": 900.0, **times} for k in (0, 1)]
    (run / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "docs").mkdir()
    command = "hypercrl train cartpole single --tasks 2"
    other = "hypercrl train pusher single"
    guide = f"# Guide\n## Poles\n```sh\n{command}  # soon\n{other}\n```\nIn `results/table`.\n"
    (tmp_path / "docs" / "guide.md").write_text(guide)
    row = costs_page(tmp_path).splitlines()[-1]
    table, records, by, runs, hours, disk = (cell.strip() for cell in row.strip("|").split("|"))
    assert table == "[Poles](guide.md#poles)"
    assert (records, by, runs) == ("`results/table`, cartpole", f"`{command}`", "1")
    assert hours == "0.5, 0.5"
    assert re.fullmatch(r"6\.\d*\u00a0MB, 6\.\d*\u00a0MB", disk)  # two checkpoints, and the records


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
