"""Trained controllers that come with the package: small, of a known origin, and they work."""

import contextlib
import json
import re

import numpy as np
import pytest

import hypercrl
import tiny
from hypercrl.cli import main
from hypercrl.commands import view
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, shipped
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.run_folder import read_run
from hypercrl.experiment.video import exploring
from hypercrl.registry import suites
from hypercrl.training import run as run_training
from test_video import read_frames

LARGEST = 1_000_000  # bytes of one with its record


@pytest.mark.parametrize("suite", shipped.names())
def test_each_one_is_small_and_says_where_it_comes_from(suite):
    folder = shipped.find(suite)
    assert sum(file.stat().st_size for file in folder.iterdir()) < LARGEST
    run = read_run(folder)
    assert run.complete and run.suite == suite and run.config.code
    assert not run.config.plugins
    finals = [e for e in run.evaluations if e.phase == "final" and e.after == run.num_tasks - 1]
    assert len(finals) >= 1


def test_there_is_one_of_every_suite():
    assert shipped.names() == sorted(suites.builtin_modules)


def test_the_list_says_which_there_are(capsys):
    main(["list", "suites"])
    told = capsys.readouterr().out.split("--trained")[1]
    assert all(name in told for name in shipped.names())


def test_the_cart_pole_is_swung_up():
    """A controller that acts at random earns a tenth of that."""
    controller = hypercrl.load("cartpole")
    env = controller.suite.tasks[0].make(None)
    state, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(controller.suite.spec.episode_length):
        state, reward, *_ = env.step(controller.act(state, 0))
        total += reward
    assert total > 50


def first_episode(controller) -> np.ndarray:
    """The states of one episode of the first task."""
    env = controller.suite.tasks[0].make(None)
    states = [env.reset(seed=0)[0]]
    for _ in range(controller.suite.spec.episode_length):
        states.append(env.step(controller.act(states[-1], 0))[0])
    return np.array(states)


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["door", "pusher", "slide"])
def test_what_is_shipped_does_its_first_task_after_all_of_them(suite):
    controller = hypercrl.load(suite)
    assert controller.suite.success(first_episode(controller))


@pytest.mark.slow
def test_the_shipped_half_cheetah_still_runs_with_its_first_body():
    controller = hypercrl.load("half_cheetah")
    measures, states = controller.suite.measures, first_episode(controller)
    assert measures["mean forward speed (m/s)"](states) > 3.0
    assert not measures["ends on its back (share)"](states)


@pytest.fixture
def run(tmp_path):
    with tiny.registered():
        config = tiny.configure(method="hypercrl", eval_every=0)
        run_training(config, tmp_path / "run", Silent())
        yield tmp_path / "run"


def test_a_shipped_controller_acts_as_the_run_does_and_leaves_out_what_learning_needs(
    run, tmp_path
):
    folder = shipped.ship(run, tmp_path / "shipped")
    state = np.array([0.2, -0.1])
    for task in range(2):
        np.testing.assert_array_equal(load(folder).act(state, task), load(run).act(state, task))
    kept, _ = checkpoint.load(folder / shipped.CONTROLLER)
    assert not [name for name in kept if "optimizer" in name or "snapshot" in name]
    assert any("embeddings" in name for name in kept) and any(
        "normalizers" in name for name in kept
    )
    data = {name for name in kept if name.startswith(("buffer", "memory"))}
    assert data == {shipped.ROOM}  # how many tasks there is room for


def test_only_a_finished_run_is_shipped(run, tmp_path):
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(line for line in lines if json.loads(line)["kind"] != "end"))
    with pytest.raises(UserError, match="not finished"):
        shipped.ship(run, tmp_path / "shipped")


def test_a_suite_without_one_is_told(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["play", "nowhere", "--trained"])
    assert stop.value.code == 2
    assert "there is one of: cartpole" in capsys.readouterr().err


# The encoder's package leaves its end of a pipe to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_episodes_and_speed_of_a_video(tmp_path, capsys):
    once, often = tmp_path / "once.mp4", tmp_path / "often.mp4"
    main(["play", "slide", "--random", "--video", str(once)])
    main(["play", "slide", "--random", "--episodes=2", "--speed=12", "--video", str(often)])
    assert len(re.findall(r"-?\d+\.\d\d\b", capsys.readouterr().out.splitlines()[1])) == 2
    one, two = (len(read_frames(path)) for path in (once, often))
    # Twice the episodes at twelve times 10 frames a second, of which every second one is shown.
    assert abs(two - one) <= 1


@pytest.mark.parametrize("flag", ["--episodes=0", "--speed=0"])
def test_an_impossible_video_is_told(tmp_path, flag, capsys):
    with pytest.raises(SystemExit):
        main(["play", "cartpole", "--random", flag, "--video", str(tmp_path / "no.mp4")])
    assert "A video" in capsys.readouterr().err


class Window:
    """MuJoCo's viewer, closed after a few frames."""

    def __init__(self, model, data):
        self.data, self.left, self.times = data, 3, []

    def is_running(self):
        self.left -= 1
        return self.left >= 0

    def sync(self):
        self.times.append(self.data.time)


def test_a_window_shows_a_simulation_that_goes_on():
    windows = []

    @contextlib.contextmanager
    def launch(model, data):
        windows.append(Window(model, data))
        yield windows[0]

    actor, act = exploring(suites.get("cartpole")(1), 0, seed=0)
    view.watch(actor, act, launch)
    np.testing.assert_allclose(windows[0].times, [0.05, 0.1, 0.15])


def test_without_a_screen_there_is_no_window(monkeypatch, capsys):
    monkeypatch.setattr(view.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit):
        main(["view", "cartpole", "--random"])
    assert "no screen" in capsys.readouterr().err
