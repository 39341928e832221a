"""Presets are made of the objects they configure, and a mistake in one is told at once."""

import pytest

from hypercrl.cli import main
from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.model import Network
from hypercrl.errors import UserError
from hypercrl.experiment.config import change, resolve
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.planning.mppi import MPPI
from hypercrl.presets import Preset, Schedule


def test_a_misspelt_setting_of_a_method_is_named():
    with pytest.raises(UserError, match="'ewc' has no setting 'strenght'"):
        Preset(methods={"ewc": {"strenght": 3.0}})


def test_an_unknown_method_is_named():
    with pytest.raises(UserError, match="no method called 'ewcc'"):
        Preset(methods={"ewcc": {"strength": 3.0}})


def test_a_misspelt_part_fails_where_the_preset_is_written():
    with pytest.raises(TypeError, match="stepz"):
        Preset(schedule=Schedule(stepz=3))  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Schedule(updates=-1), "updates"),
        (lambda: Schedule(exploration_beta=-2.0), "exploration_beta"),
        (lambda: Network(hidden=(0,)), "hidden"),
        (lambda: Network(head="pint"), "head"),
        (lambda: Training(batch_size=0), "batch_size"),
        (lambda: ChunkedHypernet(chunk_size=0), "chunk_size"),
        (lambda: FullHypernet(activation="rule"), "activation"),
        (lambda: CEM(num_elites=501), "num_elites"),
    ],
)
def test_every_object_validates_its_own_fields(make, field):
    with pytest.raises(UserError, match=field):
        make()


def test_a_method_is_tuned_for_a_suite():
    preset = Preset(
        network=Network(hidden=(7,)),
        training=Training(batch_size=9),
        methods={"ewc": {"strength": 3.0}, "coreset": {"memory_share": 0.2}},
    )
    assert preset.learner("ewc").strength == 3.0  # pyright: ignore[reportAttributeAccessIssue]
    assert preset.learner("coreset").memory_share == 0.2
    for method in ("ewc", "coreset", "single", "hypercrl"):
        learner = preset.learner(method)
        assert learner.network == preset.network  # pyright: ignore[reportAttributeAccessIssue]
        assert learner.training == preset.training  # pyright: ignore[reportAttributeAccessIssue]


def test_a_planner_brings_its_own_settings():
    preset = Preset(planners=(ICEM(horizon=7, num_samples=20), CEM(horizon=9)))
    assert preset.planner() == ICEM(horizon=7, num_samples=20)
    assert preset.planner("cem") == CEM(horizon=9)
    assert preset.planner("mppi") == MPPI(horizon=7)  # only the horizon is the suite's


def test_another_hypernetwork_comes_with_its_own_settings():
    assert resolve("pusher", "hypercrl", hypernet="full").learner.hypernet == FullHypernet()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(UserError, match="'single' has no setting 'hypernet'"):
        resolve("pusher", "single", hypernet="full")


def test_settings_that_need_each_other_are_changed_at_once():
    config = resolve("pusher", "hypercrl")
    pair = {"schedule.update_every": 300, "schedule.steps_per_task": 900}
    changed = change(config, pair).schedule
    assert (changed.update_every, changed.steps_per_task) == (300, 900)
    with pytest.raises(UserError, match="multiple of update_every"):
        change(config, {"schedule.update_every": 300})


def test_help_shows_what_a_planner_brings_and_what_can_be_chosen(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "pusher", "hypercrl", "--planner", "cem", "--help"])
    assert not stop.value.code
    text = " ".join(capsys.readouterr().out.split())
    for flag in ("--tasks", "--preset", "--planner", "--plugin", "--hypernet"):
        assert flag in text
    for name, value in (("num-samples", 500), ("num-elites", 40), ("num-iterations", 5)):
        section = text.split(f"--planning.{name}", 1)[1]
        assert f"(default: {value})" in section[:200], name
