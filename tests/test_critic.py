"""The value behind the horizon: its targets, what it learns, what a planner makes of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from hypercrl.encoding import Encoding
from hypercrl.errors import UserError
from hypercrl.experiment import testing
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.experiment.run_folder import read_run
from hypercrl.learning.critic import FARTHEST, Critic, follows, sum_rewards
from hypercrl.planning.icem import ICEM
from hypercrl.planning.rollout import imagine
from hypercrl.training import run
from hypercrl.types import Spec, Transitions

SPEC = Spec(1, 1, (-1.0,), (1.0,), 10, Encoding.differences(1))
CRITIC = Critic(updates=2_000, hidden=(16,), discount=0.8, num_steps=3, expectile=0.5, inertia=0.9)


def transitions(states, next_states, count=None) -> Transitions:
    states, next_states = (jnp.asarray(x, jnp.float32)[:, None] for x in (states, next_states))
    count = len(states) if count is None else count
    return Transitions(states, jnp.zeros_like(states), next_states, jnp.array(count))


def learn(critic, data, reward):
    state = critic.init(SPEC, key=jax.random.key(0))
    return critic.update(state, data, reward, key=jax.random.key(1)).value


def test_rows_follow_each_other_unless_an_episode_is_over_or_the_data_end():
    data = transitions([0, 1, 2, 7, 8, 9], [1, 2, 3, 8, 9, 0], count=5)
    assert follows(data).tolist() == [True, True, False, True, False, False]


@pytest.mark.parametrize("num_steps", [1, 2, 4])
def test_targets_equal_a_loop(num_steps):
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=12).astype(np.float32)
    linked = rng.random(12) < 0.7
    linked[-1] = False
    found = sum_rewards(jnp.asarray(rewards), jnp.asarray(linked), num_steps, 0.5)
    for row, (total, last, discount) in enumerate(zip(*found, strict=True)):
        at, weight, expected = row, 1.0, float(rewards[row])
        while linked[at] and at - row + 1 < num_steps:
            at, weight = at + 1, weight * 0.5
            expected += weight * rewards[at]
        assert (float(total), int(last)) == (pytest.approx(expected, abs=1e-6), at)
        assert float(discount) == pytest.approx(0.5 * weight)


def test_a_steady_reward_is_worth_what_it_pays_for_ever():
    states = np.tile([0.0, 1.0], 20)
    data = transitions(states, 1 - states)
    value = learn(CRITIC, data, lambda state, action, next_state: jnp.ones(()))
    assert float(value(jnp.zeros(1))) == pytest.approx(1 / (1 - CRITIC.discount), rel=0.02)


def test_a_state_before_a_reward_is_worth_more_than_one_after_it():
    """0 → 1 → 2 → 2 …, paid once on arriving in 1: V(0) = 1 and V(1) = V(2) = 0."""
    data = transitions([0, 1, 2, 2] * 10, [1, 2, 2, 2] * 10)
    value = learn(CRITIC, data, lambda s, a, n: jnp.where(n[0] == 1, 1.0, 0.0))
    found = [float(value(jnp.array([s]))) for s in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(found, [1, 0, 0], atol=0.06)


def test_an_upper_expectile_leans_to_what_earned_more():
    """From 0 one arrives at −1 or 1, and only the second pays; nothing follows."""
    data = transitions([0, -1, 0, 1] * 10, [-1, -1, 1, 1] * 10)

    def pays(state, action, next_state):
        return jnp.where((state[0] == 0) & (next_state[0] == 1), 1.0, 0.0)

    for expectile, expected in ((0.5, 0.5), (0.9, 0.9)):
        value = learn(dataclasses.replace(CRITIC, expectile=expectile), data, pays)
        assert float(value(jnp.zeros(1))) == pytest.approx(expected, abs=0.06)


def test_rewards_of_another_size_do_not_change_what_was_learnt():
    """A session of no steps on rewards a hundred times as large."""
    data = transitions(np.arange(8), np.arange(8) + 1)
    state = CRITIC.init(SPEC, key=jax.random.key(0))
    state = CRITIC.update(state, data, lambda s, a, n: n[0], key=jax.random.key(1))
    idle = dataclasses.replace(CRITIC, updates=0)
    after = idle.update(state, data, lambda s, a, n: 100 * n[0], key=jax.random.key(2))
    for value in (lambda s: s.value, lambda s: dataclasses.replace(s.value, weights=s.average)):
        ours, theirs = (float(value(s)(jnp.array([2.0]))) for s in (state, after))
        assert ours == pytest.approx(theirs, rel=1e-4)
    assert float(after.value.reward_std) == pytest.approx(100 * float(state.value.reward_std))


def test_no_state_is_worth_more_than_the_edge_of_the_data():
    data = transitions(np.arange(8), np.arange(8) + 1)
    value = learn(CRITIC, data, lambda s, a, n: n[0])
    spread = float(np.arange(8).std())
    edge, beyond = (value(jnp.array([3.5 + far * FARTHEST * spread])) for far in (1.01, 100.0))
    assert float(edge) == pytest.approx(float(beyond))


def test_scores_with_a_value_are_the_mean_over_all_horizons():
    def model(state, action):
        return state + action

    def reward(state, action, next_state):
        return next_state[0] * action[0]

    def value(state):
        return 10 * state[0]

    actions = jnp.array([[[0.5], [1.0], [-0.25]], [[1.0], [1.0], [1.0]]])
    expected = []
    for sequence in np.asarray(actions)[..., 0]:
        state, total, prospects = 0.3, 0.0, []
        for action in sequence:
            state += action
            total += state * action
            prospects.append(total + 10 * state)
        expected.append(np.mean(prospects))
    found = imagine(model, reward, jnp.array([0.3]), actions, value)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    endless = imagine(model, reward, jnp.zeros(1), actions, lambda s: jnp.log(s[0] - 0.6))
    assert np.isneginf(endless[0]) and np.isfinite(endless[1])


def test_a_value_shows_what_lies_behind_the_horizon():
    """One step ahead all actions pay alike; only the value knows that right is better."""
    planner = ICEM(horizon=1, num_samples=32, num_elites=4, num_kept=2)

    def plan(value):
        return planner.plan(
            planner.init(SPEC),
            lambda s, a: s + a,
            lambda s, a, n: -0.01 * jnp.sum(a**2),
            jnp.zeros(1),
            key=jax.random.key(0),
            value=value,
        ).action

    assert abs(float(plan(None)[0])) < 0.1
    assert float(plan(lambda state: state[0])[0]) > 0.9


def test_a_run_keeps_a_value_for_every_task_and_counts_it(tmp_path):
    with tiny.registered():
        config = dataclasses.replace(
            tiny.configure(), critic=Critic(updates=2, hidden=(3,), batch_size=4)
        )
        run(config, tmp_path / "with", Silent())
        run(tiny.configure(), tmp_path / "without", Silent())
        controller = load(tmp_path / "with")
        first, second = (np.asarray(controller.value(task).weights) for task in (0, 1))
        assert np.any(first != second)
        assert load(tmp_path / "without").value(0) is None
    kept = [
        max(record.bytes_per_task for record in read_run(tmp_path / name).costs)
        for name in ("with", "without")
    ]
    # Three hidden units on two features, their mean and spread, the reward's; four bytes each.
    assert kept[0] - kept[1] == 4 * (2 * 3 + 3 + 3 + 1 + 2 + 2 + 1)


def test_an_old_task_is_tested_with_its_own_value(tmp_path, monkeypatch):
    used = {}

    def test(self, model, value, task, *, after, phase, **rest):
        used[task, after, phase] = np.asarray(value.weights)
        return tested(self, model, value, task, after=after, phase=phase, **rest)

    tested = testing.Tester.test
    monkeypatch.setattr(testing.Tester, "test", test)
    with tiny.registered():
        critic = Critic(updates=2, hidden=(3,), batch_size=4)
        run(dataclasses.replace(tiny.configure(), critic=critic), tmp_path, Silent())
    np.testing.assert_array_equal(used[0, 1, "final"], used[0, 0, "final"])
    np.testing.assert_array_equal(used[1, 0, "zero_shot"], used[0, 0, "final"])  # a guess
    assert np.any(used[1, 1, "final"] != used[0, 0, "final"])


def test_bad_settings_are_refused():
    for wrong in ({"discount": 1.0}, {"expectile": 0.0}, {"updates": -1}, {"num_steps": 0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            Critic(**wrong)
