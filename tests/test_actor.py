"""One agent in one environment: what is executed, paid, recorded and learnt from is one thing."""

import contextlib
import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from hypercrl.errors import UserError
from hypercrl.experiment import streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.episode import run_episode
from hypercrl.suites.cartpole import CartpoleEnv, cartpole
from hypercrl.types import Plan, Planner, Task

SUITE = tiny.make_suite("tiny", tiny.Point)


@dataclass(frozen=True)
class Bold(Planner):
    """Asks for more than there is."""

    horizon: int = 1

    def init(self, spec):
        return ()

    def plan(self, state, model, reward, observation, *, key):
        return Plan(jnp.full(1, 5.0), (), {})

    @property
    def evaluations_per_action(self):
        return 0


def no_model(state, action):
    return state


@contextlib.contextmanager
def acting(task=SUITE.tasks[0], planner=None, spec=SUITE.spec, **options):
    options = {"seed": 0, "purpose": ("here", 0), **options}
    with contextlib.closing(Actor(task, spec, planner, **options)) as actor:
        yield actor


def test_the_action_that_is_executed_is_the_one_that_is_paid_for_and_kept(monkeypatch):
    executed, step_env = [], tiny.Point.step

    def watch(self, action):
        executed.append(action.copy())
        return step_env(self, action)

    monkeypatch.setattr(tiny.Point, "step", watch)
    with acting(planner=Bold()) as actor:
        step = actor.plan(no_model)
    assert executed[0] == step.action == [1.0]
    assert step.action.dtype == np.float32
    paid = tiny.reward(step.state, step.action, step.next_state)
    assert step.reward == pytest.approx(float(paid))


class Till:
    """A reward that knows how often it was asked."""

    def __init__(self):
        self.count = 0

    def __call__(self, state, action, next_state):
        jax.debug.callback(self._ring)
        return jnp.sum(next_state**2)

    def _ring(self):
        self.count += 1


@pytest.mark.parametrize("kind", ["ours", "a user's"])
def test_the_reward_of_a_step_is_evaluated_once(kind):
    reward = Till()
    make = functools.partial(CartpoleEnv, 0.5, reward) if kind == "ours" else SUITE.tasks[0].make
    spec = cartpole().spec if kind == "ours" else SUITE.spec
    with acting(Task("one", make, reward), spec=spec) as actor:
        steps = [actor.explore() for _ in range(4)]
    jax.effects_barrier()
    assert reward.count == 4
    for step in steps:
        assert step.reward == pytest.approx(float(np.sum(step.next_state**2)), rel=1e-5)


def test_the_known_reward_goes_before_whatever_an_environment_pays():
    def other(state, action, next_state):
        return jnp.asarray(7.0)

    make = functools.partial(CartpoleEnv, 0.5, other)
    with acting(Task("one", make, tiny.reward), spec=cartpole().spec) as actor:
        step = actor.explore()
    paid = tiny.reward(step.state, step.action, step.next_state)
    assert step.reward == pytest.approx(float(paid), rel=1e-5)


def test_an_episode_is_summed_up_as_it_was():
    with acting() as actor:
        steps = []
        episode = run_episode(lambda: steps.append(actor.explore()) or steps[-1])
    assert episode.total == pytest.approx(sum(step.reward for step in steps))
    np.testing.assert_array_equal(episode.states[1:], [step.next_state for step in steps])
    np.testing.assert_array_equal(episode.states[:-1], [step.state for step in steps])
    np.testing.assert_array_equal(episode.actions, [step.action for step in steps])


@pytest.mark.parametrize("exponent", [-1.0, 1e4, float("nan")])
def test_an_impossible_colour_is_not_blamed_on_the_reward(exponent):
    with (
        pytest.raises(UserError, match="exploration_beta must be from 0 to 10"),
        acting(exploration_beta=exponent),
    ):
        pass


@pytest.mark.parametrize("colour", [0.0, 2.0])
def test_no_episode_and_no_step_is_drawn_twice(colour):
    with acting(exploration_beta=colour) as actor:
        episodes = [run_episode(actor.explore) for _ in range(20)]
    starts = {episode.states[0].tobytes() for episode in episodes}
    actions = np.concatenate([episode.actions for episode in episodes])
    inside = actions[np.abs(actions) < 1]  # what was clipped looks alike
    assert len(starts) == 20
    assert len(inside) > 20 and len(set(inside.tolist())) == len(inside)


def test_another_task_seed_or_purpose_is_drawn_otherwise():
    def draw(**options):
        with acting(**options) as actor:
            step = actor.explore()
        return step.state.tobytes(), step.action.tobytes()

    others = ({}, {"seed": 1}, {"purpose": ("there", 0)}, {"purpose": ("here", 1)})
    states, actions = zip(*(draw(**options) for options in others), strict=True)
    assert len(set(states)) == len(set(actions)) == len(others)


@pytest.mark.parametrize("draw", [streams.key, streams.generator, streams.integer])
def test_every_name_has_a_stream_of_its_own(draw):
    names = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 0), (0, "a", 1, 0)]

    def numbers(name):
        found = draw(*name)
        if isinstance(found, np.random.Generator):
            return found.integers(2**31)
        return found if isinstance(found, int) else tuple(jax.random.key_data(found).tolist())

    assert len({numbers(name) for name in names}) == len(names)
    assert numbers(names[-1]) == numbers(names[-1])
