"""The guides' commands that look at something are carried out, in episodes of a few steps.

Those that train are planned only (`test_docs.py`): they take minutes to hours.
"""

import importlib
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from hypercrl.experiment import shipped
from hypercrl.experiment.actor import Actor
from hypercrl.registry import suites

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRAIN = ("train", "sweep")
# Measurements of minutes to hours, on runs and recordings that nothing here has; one can also draw.
MEASURE = ("economy.py", "latency.py", "sequence.py", "plan_with_simulator.py")
DRAW = "--plot"
EPISODE_STEPS = 4


def commands(guide: Path) -> list[str]:
    """What a reader would type, but for what trains, installs or measures."""
    code = "\n".join(re.findall(r"^```sh\n(.*?)^```", guide.read_text(), re.DOTALL | re.M))
    lines = (shlex.split(line, comments=True) for line in code.replace("\\\n", " ").splitlines())
    return [shlex.join(words) for words in lines if len(words) > 1 and _only_looks(words)]


def _only_looks(words: list[str]) -> bool:
    if words[0] == "hypercrl":
        return words[1] not in TRAIN
    measures = Path(words[1]).name in MEASURE and DRAW not in words
    return words[0] == "python" and not measures


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder of a reader's: examples as plugins of one's own, and episodes that end soon."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "my_suite.py"):
        shutil.copy(ROOT / "examples" / "pendulum_suite.py", name)
    method = "import hypercrl\nfrom hypercrl.learners.finetune import FineTune"
    register = 'hypercrl.learners.register("my_method")(FineTune)'
    Path("my_method.py").write_text(f"{method}\n{register}\n")
    for name in ("benchmarks", "tools"):
        shutil.copytree(ROOT / name, name)
    Path("docs", "images").mkdir(parents=True)
    begin = Actor.__init__

    def begin_a_short_one(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        self.episode_length = min(self.episode_length, EPISODE_STEPS)

    monkeypatch.setattr(Actor, "__init__", begin_a_short_one)
    return tmp_path


def provide(word: str) -> list[str]:
    """The runs or records that a command names, copied to where it looks for them."""
    if word.startswith("results/"):
        found = sorted(ROOT.glob(word))
        names = [path.relative_to(ROOT) for path in found]
        for path, name in zip(found, names, strict=True):
            name.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, name, dirs_exist_ok=True)
            else:
                shutil.copy(path, name)
        return [str(name) for name in names]
    if word == "runs" or word.startswith("runs/"):
        name = word.partition("/")[2] or "cartpole-hypercrl-laptop-s0"
        suite = max((suite for suite in suites.names() if name.startswith(suite)), key=len)
        if not Path("runs", name).exists():
            shutil.copytree(shipped.find(suite), Path("runs", name))
    return [word]


def run_program(path: str, words: list[str], monkeypatch) -> None:
    """Where time stands still: an exported planner complains of steps that a busy one misses."""
    with monkeypatch.context() as here:
        here.setattr(sys, "argv", [path, *words])
        here.setattr("time.monotonic", lambda: 0.0)
        here.setattr("time.sleep", lambda _: None)
        runpy.run_path(path, run_name="__main__")


@pytest.mark.slow  # a minute or two; `make docs` runs it too
@pytest.mark.parametrize("guide", [one for one in GUIDES if commands(one)], ids=lambda p: p.name)
def test_commands_that_look_at_something_work(guide, desk, registries, monkeypatch, capsys):
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    for command in commands(guide):
        program, first, *words = shlex.split(command)
        words = [part for word in words for part in provide(word)]
        try:
            if program == "hypercrl":
                importlib.import_module(f"hypercrl.commands.{first}").run(words)
            else:
                run_program(first, words, monkeypatch)
        except SystemExit as end:
            assert not end.code, f"{command}: {end.code}"
        printed = capsys.readouterr()
        assert printed.out or Path(words[-1]).exists(), command
    plt.close("all")
