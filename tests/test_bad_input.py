"""Whatever a person can get wrong: one sentence, exit status 2, and nothing saved is lost."""

import functools
import json
import re
import shutil
import sys
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from hypercrl import load
from hypercrl.cli import main
from hypercrl.encoding import Encoding
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import CHECKPOINT, read_config
from hypercrl.registry import learners, planners, suites
from hypercrl.types import Plan, Planner
from small_disk import open_folder, read_only

TRAIN = ("train", "tiny", "finetune")
HYPERCRL = ("train", "tiny", "hypercrl")


class Moody(tiny.Point):
    """A point whose seventh step in the second task goes wrong."""

    def __init__(self, trouble, gain=1.0, render_mode=None):
        super().__init__(gain, render_mode)
        self.trouble = trouble if gain < 0 else None
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.trouble is None or self.steps < 7:
            return super().step(action)
        return self.trouble(super().step(action))


def raise_an_error(result):
    raise ZeroDivisionError("the spring broke\nat the third coil")


def leave(*_):
    sys.exit(0)


TROUBLES = {
    "nan": (lambda r: (r[0] * np.nan, *r[1:]), "a state that is not finite in episode 2, step 1"),
    "infinity": (lambda r: (r[0] + np.inf, *r[1:]), "a state that is not finite"),
    "shape": (lambda r: (np.zeros(3), *r[1:]), r"a state of shape \(3,\); its suite says \(2,\)"),
    "text": (lambda r: ("here", *r[1:]), "failed in episode 2, step 1 with ValueError: could not"),
    "tuple": (lambda r: r[:3], "failed in episode 2, step 1 with ValueError: not enough values"),
    "error": (raise_an_error, "failed .* with ZeroDivisionError: the spring broke"),
    "exit": (leave, "failed in episode 2, step 1 with SystemExit: 0"),
}
REWARDS = {
    "shape": (lambda s, a, n: n, r"must be one number and not an array of shape \(2,\)"),
    "pair": (lambda s, a, n: (n[0], n[1]), "must be one number and not tuple"),
    "untraceable": (lambda s, a, n: float(n[0]), "that JAX can trace"),
    "arguments": (lambda s, a: s[0], r"a function of \(state, action, next_state\)"),
    "nan": (lambda s, a, n: jnp.log(n[0] - 99), "is nan in episode 1, step 0"),
    "exit": (lambda s, a, n: sys.exit(0), "that JAX can trace: 0"),
}


def moody(trouble):
    env = functools.partial(Moody, trouble)
    return lambda num_tasks=2: tiny.make_suite("tiny", env, num_tasks)


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    main([*TRAIN, "--out", str(folder)])
    return folder


@pytest.fixture
def fails(capsys):
    """Give a command and return the sentence with which it fails."""

    def give(*arguments) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert stop.value.code == 2
        assert output.err.startswith("hypercrl: ")
        assert output.err.count("\n") == 1 and output.err.endswith((".\n", "?\n"))
        assert "Traceback" not in output.err + output.out
        return output.err

    return give


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fly"], "There is no command 'fly'; choose one of: "),
        (["train"], "Something is missing; usage: hypercrl train SUITE METHOD"),
        (["train", "tiny"], "Something is missing"),
        (["train", "nowhere", "finetune"], "There is no suite called 'nowhere'"),
        (["train", "tiny", "guess"], "There is no method called 'guess'"),
        ([*TRAIN, "--planner", "hope"], "There is no planner called 'hope'"),
        ([*TRAIN, "--preset", "huge"], "has no preset 'huge'; choose one of: tiny."),
        ([*TRAIN, "--sede", "3"], "There is no flag --sede"),
        ([*TRAIN, "--sede", "3"], "Did you mean --seed?"),
        ([*TRAIN, "again"], "The argument 'again' is one too many"),
        ([*TRAIN, "--seed", "first"], "Error parsing --seed: invalid literal for int()"),
        ([*TRAIN, "--seed"], "Missing value for argument '--seed'"),
        ([*TRAIN, "--seed", "-1"], "The seed cannot be negative (-1)"),
        ([*TRAIN, "--tasks", "many"], "--tasks: invalid int value: 'many'"),
        ([*TRAIN, "--tasks"], "--tasks: expected one argument"),
        ([*TRAIN, "--plugin", "nowhere.py"], "The plugin 'nowhere.py' cannot be imported"),
        ([*TRAIN, "--steps-per-task", "0"], "steps_per_task must be at least 1; it was given 0"),
        (
            [*TRAIN, "--steps-per-task", "-12"],
            "steps_per_task must be at least 1; it was given -12",
        ),
        ([*TRAIN, "--update-every", "5"], "must be a multiple of update_every (5)"),
        ([*TRAIN, "--eval-every", "7"], "eval_every (7) must be a multiple of update_every (6)"),
        ([*TRAIN, "--random-episodes", "-1"], "random_episodes must be at least 0"),
        ([*TRAIN, "--updates", "-1"], "updates must be at least 0"),
        ([*TRAIN, "--eval-episodes", "0"], "eval_episodes must be at least 1"),
        ([*TRAIN, "--exploration-beta", "-1"], "exploration_beta must be from 0 to 10"),
        ([*TRAIN, "--exploration-beta", "nan"], "exploration_beta must be from 0 to 10"),
        ([*TRAIN, "--planning.horizon", "0"], "horizon"),
        ([*TRAIN, "--checkpoint-seconds", "-1"], "checkpoint_seconds cannot be -1.0"),
        ([*TRAIN, "--checkpoint-seconds", "nan"], "checkpoint_seconds cannot be nan"),
        ([*TRAIN, "--learner.learning-rate", "nan"], "learning_rate must be above 0 and finite"),
        ([*TRAIN, "--learner.training.batch-size", "0"], "batch_size must be at least 1"),
        ([*TRAIN, "--learner.network.hidden", "0"], "Network's hidden must be at least 1"),
        ([*HYPERCRL, "--learner.training.batch-size", "-3"], "batch_size must be at least 1"),
        ([*HYPERCRL, "--learner.regulariser.strength", "-1"], "strength must be at least 0"),
        ([*HYPERCRL, "--learner.hypernet.embedding-dim", "0"], "embedding_dim must be at least 1"),
        ([*HYPERCRL, "--learner.hypernet.hidden"], "hidden must be one number or several"),
        ([*HYPERCRL, "--hypernet", "fuller"], "There is no hypernetwork called 'fuller'"),
        (["list", "dreams"], "invalid choice 'dreams'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_argument_is_told(fails, tmp_path, arguments, told, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told in fails(*arguments)


@pytest.mark.parametrize("num_tasks", [0, -1, 99])
def test_impossible_number_of_tasks_is_told(fails, num_tasks):
    assert f"cannot make {num_tasks}" in fails(
        "train", "cartpole", "finetune", "--tasks", num_tasks
    )


def test_known_names_are_listed(fails):
    for registry, arguments in (
        (suites, ("train", "nowhere", "finetune")),
        (learners, ("train", "tiny", "guess")),
        (planners, (*TRAIN, "--planner", "hope")),
    ):
        assert f"choose one of: {', '.join(registry.names())}." in fails(*arguments)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_environment_that_goes_wrong_is_told_and_can_be_mended(fails, finished, tmp_path, trouble):
    """It is told which task failed and where; once that is mended, the run goes on to its end."""
    misbehave, told = TROUBLES[trouble]
    arguments = (*TRAIN, "--checkpoint-seconds", "0", "--out", str(tmp_path))
    with tiny.registered(tiny=moody(misbehave)):
        sentence = fails(*arguments)
        assert fails(*arguments) == sentence
    assert "The environment of task 'gain -1'" in sentence
    assert re.search(told, sentence)
    main(list(arguments))
    tiny.assert_same_run(tmp_path, finished)


@pytest.mark.parametrize("error", [ZeroDivisionError("no mesh"), SystemExit("no mesh")], ids=repr)
def test_suite_that_cannot_be_made_is_told(fails, tmp_path, error):
    def suite(num_tasks=2):
        raise error

    with tiny.registered(tiny=suite):
        sentence = fails(*TRAIN, "--out", tmp_path)
    assert f"The suite 'tiny' failed with {type(error).__name__}: no mesh" in sentence


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("division by zero"), SystemExit("by zero")], ids=repr
)
def test_environment_that_cannot_be_made_is_told(fails, tmp_path, error):
    def env(gain, render_mode):
        raise error

    with tiny.registered(tiny=lambda num_tasks=2: tiny.make_suite("tiny", env, num_tasks)):
        sentence = fails(*TRAIN, "--out", tmp_path)
    assert "The environment of task 'gain 1' failed" in sentence
    assert f"{type(error).__name__}: {error}" in sentence


@pytest.mark.parametrize("kind", REWARDS)
def test_reward_that_is_no_number_is_told(fails, tmp_path, kind):
    reward, told = REWARDS[kind]
    with tiny.registered(
        tiny=lambda num_tasks=2: tiny.make_suite("tiny", tiny.Point, num_tasks, reward)
    ):
        sentence = fails(*TRAIN, "--out", tmp_path)
    assert "The reward of task 'gain 1'" in sentence
    assert re.search(told, sentence)


def test_reward_is_looked_at_before_anything_is_deleted(fails, finished):
    before = (finished / "metrics.jsonl").read_bytes()
    reward, _ = REWARDS["shape"]
    with tiny.registered(
        tiny=lambda num_tasks=2: tiny.make_suite("tiny", tiny.Point, num_tasks, reward)
    ):
        assert "The reward of task" in fails(*TRAIN, "--fresh", "--out", finished)
    assert (finished / "metrics.jsonl").read_bytes() == before


@dataclass(frozen=True)
class Confused(Planner):
    """Plans whatever it was told to."""

    horizon: int = 3
    numbers: int = 1
    value: str = "0"

    def init(self, spec):
        return ()

    def plan(self, state, model, reward, observation, *, key):
        return Plan(jnp.full(self.numbers, float(self.value)), (), {})

    @property
    def evaluations_per_action(self):
        return 0


@pytest.mark.parametrize("action", [("value", "nan"), ("numbers", "2")])
def test_planner_that_returns_no_action_is_told(fails, tmp_path, monkeypatch, action):
    planners.names()
    monkeypatch.setitem(planners._factories, "confused", Confused)
    flags = ("--planner", "confused", f"--planning.{action[0]}", action[1])
    sentence = fails(*TRAIN, *flags, "--out", tmp_path)
    assert "The planner Confused returned" in sentence
    assert "an action must be 1 finite numbers" in sentence


def test_unwritable_folder_is_told(fails, tmp_path):
    (tmp_path / "file").write_text("precious")
    sentence = fails(*TRAIN, "--out", tmp_path / "file" / "run")
    assert "cannot be written (Not a directory)" in sentence
    with open_folder() as folder, read_only(folder):
        assert "cannot be written (Permission denied)" in fails(*TRAIN, "--out", folder / "run")


def test_folder_with_another_run_is_told(fails, finished, capsys):
    before = (finished / "metrics.jsonl").read_bytes()
    sentence = fails("train", "tiny", "single", "--seed", "1", "--out", finished)
    assert "holds a run with other settings (method, seed)" in sentence
    assert "--fresh" in sentence
    main([*TRAIN, "--out", str(finished)])
    assert "finished before; --fresh starts it over" in capsys.readouterr().out
    assert (finished / "metrics.jsonl").read_bytes() == before


def test_starting_over_is_said(finished, tmp_path, capsys):
    folder = shutil.copytree(finished, tmp_path / "copy")
    main([*TRAIN, "--out", str(folder), "--seed", "1", "--fresh"])
    assert "starting over: the run that was in" in capsys.readouterr().out
    assert read_config(folder).seed == 1
    main([*TRAIN, "--out", str(tmp_path / "new"), "--fresh"])
    assert "starting over" not in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign"])
def test_damaged_checkpoint_is_told(fails, finished, tmp_path, damage):
    folder = shutil.copytree(finished, tmp_path / "copy")
    whole = (folder / CHECKPOINT).read_bytes()
    damaged = {
        "truncated": whole[:-7],
        "flipped": whole[:-7] + bytes([whole[-7] ^ 4]) + whole[-6:],
        "foreign": b"PK" + whole,
    }
    (folder / CHECKPOINT).write_bytes(damaged[damage])
    assert "damaged or cut short; delete it" in fails(*TRAIN, "--out", folder)
    (folder / CHECKPOINT).unlink()
    main([*TRAIN, "--out", str(folder)])
    tiny.assert_same_run(folder, finished)


def test_suite_that_no_longer_fits_its_checkpoint_is_told(fails, finished):
    """As after an update that gave the suite's states another number."""

    def grown(num_tasks=2):
        suite = tiny.make_suite("tiny", tiny.Point, num_tasks)
        spec = replace(suite.spec, state_dim=3, encoding=Encoding.differences(3))
        return replace(suite, spec=spec)

    with tiny.registered(tiny=grown):
        sentence = fails(*TRAIN, "--out", finished)
        assert "other settings (state_dim)" in sentence
        with pytest.raises(UserError, match="but this configuration needs float32"):
            load(finished)
    assert load(finished).act(np.zeros(2), task=1).shape == (1,)


@pytest.mark.parametrize("task", [0, 3])
def test_playing_an_unlearnt_task_is_told(fails, finished, task):
    """Tasks count from 1 on the command line, in the answer too."""
    told = fails("play", finished, "--task", task)
    assert f"has learnt the tasks 1 to 2 and not task {task}" in told


def test_folder_without_a_run_is_told(tmp_path):
    with pytest.raises(UserError, match=r"is not a run: it has no config\.json"):
        load(tmp_path)


@pytest.mark.parametrize("part", ["schedule", "learner", "planning"])
def test_incomplete_configuration_is_told(finished, tmp_path, part):
    folder = shutil.copytree(finished, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    for change in ({part: None}, {part: {"unheard": 1}}):
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(UserError):
            load(folder)
    assert load(finished).num_learnt == 2


def test_missing_wandb_is_told(fails, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "pip install hypercrl[wandb]" in fails(*TRAIN, "--wandb", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
