"""How long training episodes go on."""

import numpy as np
import pytest

import tiny
from hypercrl.experiment.display import Silent
from hypercrl.experiment.episode import Step
from hypercrl.experiment.run_folder import read_run
from hypercrl.experiment.stretches import Stretches
from hypercrl.training import run

LENGTH = 3
NOWHERE = np.zeros(1)


def watch(stretches, rewards, *, first_half=False, done_at=0):
    """The step after which an episode with these rewards may not go on; 0: it may."""
    total = 0.0
    for number, reward in enumerate(rewards, 1):
        total += reward
        done = number == done_at
        step = Step(NOWHERE, NOWHERE, NOWHERE, reward, done, 1, total)
        if not stretches.goes_on(step, number, first_half=first_half):
            return number
    return 0


@pytest.fixture
def learnt():
    """After a first half whose three stretches earned 3, 6 and 9."""
    stretches = Stretches(LENGTH)
    for reward in (1, 2, 3):
        assert watch(stretches, [reward] * LENGTH, first_half=True, done_at=LENGTH) == LENGTH
    return stretches


def test_an_episode_goes_on_as_long_as_it_pays(learnt):
    assert watch(learnt, [2] * 30) == 0
    assert watch(learnt, [1.9] * 30) == LENGTH


def test_the_last_stretch_alone_decides(learnt):
    assert watch(learnt, [9, 9, 9, 0, 0, 0, 9, 9, 9]) == 6
    assert watch(learnt, [9, 9, 9, 9, 9, 9, 2, 2, 2]) == 0


def test_a_new_episode_starts_from_nothing(learnt):
    for rewards, done_at in (([9] * 5, 5), ([9, 9, 9, 0, 0, 0], 0)):
        watch(learnt, rewards, done_at=done_at)
        assert watch(learnt, [2, 2, 2]) == 0
        watch(learnt, [2, 2, 2, 0], done_at=4)


def test_rewards_may_all_be_negative():
    stretches = Stretches(LENGTH)
    watch(stretches, [-2] * LENGTH, first_half=True, done_at=LENGTH)
    assert watch(stretches, [-2] * 30) == 0
    assert watch(stretches, [-2, -2, -2, -3, -3, -3]) == 6


def test_a_new_task_has_an_average_of_its_own(learnt):
    learnt.begin_task()
    watch(learnt, [0.25] * LENGTH, first_half=True, done_at=LENGTH)
    assert watch(learnt, [0.25] * 30) == 0


def test_without_a_length_everything_goes_on():
    assert watch(Stretches(0), [5, 5, 5, -9, -9, -9]) == 0


def test_what_was_earned_is_saved_in_the_middle_of_an_episode(learnt):
    assert watch(learnt, [9, 9, 9, 9]) == 0
    other = Stretches(LENGTH)
    other.set_state(learnt.get_state())
    step = Step(NOWHERE, NOWHERE, NOWHERE, 0.0, False, 1, 27 + 5.9)
    assert not other.goes_on(step, 6, first_half=False)
    older = Stretches(LENGTH)
    older.set_state({})
    assert older.goes_on(step, 6, first_half=False)


def test_a_run_ends_what_does_not_pay(tmp_path, monkeypatch):
    """From a task's middle on; before it, episodes are short anyway."""
    with tiny.registered():
        config = tiny.configure(steps_per_task=36, eval_every=0, episode_steps=2, zero_shot=False)
        run(config, tmp_path / "pays", Silent())
        monkeypatch.setattr(Stretches, "goes_on", lambda self, step, number, **_: number % 2 > 0)
        run(config, tmp_path / "never", Silent())
        lengths = {}
        for name in ("pays", "never"):
            episodes = read_run(tmp_path / name).episodes
            ends = [e.step for e in episodes if e.task == 0 and not e.random]
            lengths[name] = np.diff([end for end in ends if end >= 18])
        assert lengths["pays"].max() > 2
        assert lengths["never"].max() <= 2
