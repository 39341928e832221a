"""The planners: a contract that every registered one keeps, then what each one promises."""

import dataclasses
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from hypercrl.contracts import planner as contract
from hypercrl.contracts.planner import SMALL, closeness, make, make_model, make_spec, plan_once
from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.model import DynamicsModel
from hypercrl.encoding import Encoding
from hypercrl.errors import UserError
from hypercrl.planning.cem import CEM, refit
from hypercrl.planning.icem import ICEM, ICEMState
from hypercrl.planning.mppi import MPPI, weigh
from hypercrl.planning.noise import coloured_basis, coloured_covariance, noise_basis
from hypercrl.planning.optimistic import optimistic
from hypercrl.planning.rollout import imagine, open_loop, summarise
from hypercrl.planning.sampling import coloured_noise
from hypercrl.registry import load_plugin, planners
from hypercrl.types import Spec

EVERY_PLANNER = pytest.mark.parametrize("name", planners.names())


# The contract


@EVERY_PLANNER
@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.__name__)
def test_promise_is_kept(name, promise):
    promise(name)


@EVERY_PLANNER
@pytest.mark.parametrize("field", ["horizon", "num_samples", "num_iterations"])
def test_impossible_settings_are_refused(name, field):
    with pytest.raises(UserError, match=field):
        make(name, **{field: -1})


@EVERY_PLANNER
def test_plan_reports_its_returns(name):
    plan = plan_once(make(name), make_spec(), make_model())
    assert 0 < plan.info["expected_return"] <= SMALL["horizon"]
    assert plan.info["num_nonfinite"] == 0
    assert not plan.info["fallback"]


@EVERY_PLANNER
def test_another_key_gives_another_plan(name):
    spec = make_spec(low=(-4.0, -4.0), high=(4.0, 4.0))  # the best action lies well inside
    first, other = (plan_once(make(name), spec, make_model(), k) for k in (1, 2))
    assert not jnp.array_equal(first.action, other.action)


@EVERY_PLANNER
def test_a_plan_counts_the_futures_that_are_not_finite(name):
    plan = plan_once(make(name), make_spec(), make_model(high=(0.0, np.inf)))
    assert jnp.isfinite(plan.info["expected_return"])
    assert plan.info["num_nonfinite"] > 0
    assert not plan.info["fallback"]


@EVERY_PLANNER
def test_without_any_finite_future_the_plan_says_so(name):
    planner = make(name)
    plan = plan_once(
        planner, make_spec(low=(1.0, 1.0), high=(3.0, 3.0)), make_model(high=(-9.0, 9.0))
    )
    assert plan.info["fallback"]
    assert plan.info["num_nonfinite"] == planner.evaluations_per_action // SMALL["horizon"]

    healthy = planner.plan(plan.state, make_model(), closeness, jnp.zeros(3), key=jax.random.key(1))
    assert not healthy.info["fallback"]
    assert jnp.isfinite(healthy.info["expected_return"])


# Against the Riccati optimum


DOUBLE_INTEGRATOR = (np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005], [0.1]]))
STATE_COST = np.diag([1.0, 0.1])
ACTION_COST = np.array([[0.3]])
NUM_STEPS = 40
START = np.array([1.5, 0.0])


class DoubleIntegrator(eqx.Module):
    def __call__(self, state, action):
        a, b = (jnp.asarray(matrix, jnp.float32) for matrix in DOUBLE_INTEGRATOR)
        return a @ state + b @ action


def quadratic(state, action, next_state):
    return -(next_state @ STATE_COST @ next_state + action @ ACTION_COST @ action)


def optimal_cost() -> float:
    a, b = DOUBLE_INTEGRATOR
    value = np.zeros((2, 2))
    for _ in range(NUM_STEPS):
        ahead = STATE_COST + value
        gain = np.linalg.solve(ACTION_COST + b.T @ ahead @ b, b.T @ ahead @ a)
        value = a.T @ ahead @ (a - b @ gain)
    return float(START @ value @ START)


@pytest.mark.parametrize(
    ("planner", "tolerance"),
    [
        (CEM(), 0.02),
        (CEM(execute="mean"), 0.01),
        (ICEM(num_samples=300, num_iterations=6, num_elites=30, init_std=0.5), 0.02),
        (ICEM(num_samples=300, num_iterations=6, init_std=0.5, execute="mean"), 0.01),
        (MPPI(num_samples=300, num_iterations=6, noise_std=0.2), 0.02),
    ],
)
def test_cost_on_a_linear_quadratic_problem(planner, tolerance):
    a, b = DOUBLE_INTEGRATOR
    model = DoubleIntegrator()
    plan_state = planner.init(make_spec(low=(-3.0,), high=(3.0,)))  # the optimum stays within 2.5
    key = jax.random.key(0)
    state, cost = START, 0.0
    for step in range(NUM_STEPS):
        observation = np.asarray(state, np.float32)
        step_key = jax.random.fold_in(key, step)
        plan = planner.plan(plan_state, model, quadratic, observation, key=step_key)
        plan_state, action = plan.state, np.asarray(plan.action, float)
        state = a @ state + b @ action
        cost += state @ STATE_COST @ state + action @ ACTION_COST @ action
    assert optimal_cost() <= cost <= (1 + tolerance) * optimal_cost()


# Imagined futures


def test_imagined_returns_and_states_equal_a_loop():
    model, start = make_model(), jnp.array([0.3, -0.2, 0.1])
    actions = jax.random.normal(jax.random.key(0), (5, 4, 2))

    def reward(state, action, next_state):
        return state[0] * action[1] - next_state[2]

    for sequence, imagined in zip(actions, imagine(model, reward, start, actions), strict=True):
        states, total = [start], 0.0
        for action in sequence:
            states.append(model(states[-1], action))
            total += float(reward(states[-2], action, states[-1]))
        assert float(imagined) == pytest.approx(total, rel=1e-4)
        np.testing.assert_allclose(open_loop(model, start, sequence), states, atol=1e-5)


def test_a_diverged_state_is_noticed_behind_a_bounded_reward():
    actions = jnp.array([[[-0.5, 0.0], [-0.5, 0.0]], [[-0.5, 0.0], [0.5, 0.0]]])
    model = make_model(high=(0.0, np.inf), poison=np.inf)
    assert closeness(None, None, jnp.full(3, jnp.inf)) == 0.0
    returns = imagine(model, closeness, jnp.zeros(3), actions)
    assert jnp.isfinite(returns[0])
    assert returns[1] == -jnp.inf


def test_summary_judges_the_last_round_and_counts_all():
    returns = jnp.array([[1.0, 5.0], [-jnp.inf, 2.0]])
    assert summarise(returns) == {"expected_return": 2.0, "num_nonfinite": 1, "fallback": False}
    assert summarise(returns.at[1, 1].set(-jnp.inf))["fallback"]


# What each planner adds


def test_cem_starts_afresh_at_every_step():
    planner = make("cem")
    plan = plan_once(planner, make_spec(), make_model())
    again = planner.plan(plan.state, make_model(), closeness, jnp.zeros(3), key=jax.random.key(0))
    assert eqx.tree_equal(plan, again)


def test_cem_samples_beyond_the_bounds_and_pays_for_what_would_be_executed():
    """Its Gaussian knows no bounds, but the effort of an action is that of the clipped one."""

    def effort(state, action, next_state):
        return -jnp.abs(action - 0.2).sum()  # best at the upper bound, which all beyond it share

    spec = make_spec(low=(-0.2, -0.2), high=(0.2, 0.2))
    planner = make("cem")
    plan = planner.plan(
        planner.init(spec), make_model(), effort, jnp.zeros(3), key=jax.random.key(0)
    )
    np.testing.assert_allclose(plan.action, 0.2)
    np.testing.assert_allclose(plan.info["expected_return"], 0.0, atol=1e-6)


def test_icem_executes_the_mean_that_it_goes_on_from_where_asked_to():
    best, mean = (
        plan_once(make("icem", execute=how), make_spec(), make_model()) for how in ("best", "mean")
    )
    np.testing.assert_array_equal(best.state.start.mean, mean.state.start.mean)
    np.testing.assert_array_equal(mean.action, mean.state.start.mean[0])
    assert not jnp.array_equal(best.action, mean.action)
    # Where a task is being learnt it explores.
    assert make("icem", execute="mean").exploring == make("icem", execute="best")


@pytest.mark.parametrize("name", ["cem", "icem"])
def test_an_unknown_way_to_execute_is_refused(name, unchecked):
    with pytest.raises(UserError, match="'median'"):
        make(name, execute="median")


def test_refit_sees_only_finite_elites():
    mean, std = jnp.zeros((1, 1)), jnp.ones((1, 1))
    elites = jnp.array([1.0, 3.0, 50.0]).reshape(3, 1, 1)
    new_mean, new_std = refit(mean, std, elites, jnp.array([2.0, 1.0, -jnp.inf]))
    assert (new_mean.item(), new_std.item()) == (2.0, 1.0)
    same_mean, same_std = refit(mean, std, elites, jnp.full(3, -jnp.inf))
    assert (same_mean.item(), same_std.item()) == (0.0, 1.0)


@EVERY_PLANNER
def test_nothing_outside_the_bounds_is_imagined(name):
    planner = make(name)
    low, high = (-0.2, 2.0), (1.0, 3.0)
    state = planner.init(make_spec(low, high))
    for step in range(3):
        plan = planner.plan(
            state, make_model(low, high), closeness, jnp.zeros(3), key=jax.random.key(step)
        )
        state = plan.state
        assert plan.info["num_nonfinite"] == 0


def test_icem_never_loses_the_future_it_has_found():
    """The shifted elites compete again, so a true model's promise can only grow."""
    planner = ICEM(horizon=12, num_samples=8, num_elites=4, num_kept=2, num_iterations=2)
    model, state = make_model(), jnp.zeros(3)
    plan_state = planner.init(make_spec(low=(-0.3, -0.3), high=(0.3, 0.3)))
    promised = -np.inf
    for step in range(15):
        plan = planner.plan(plan_state, model, closeness, state, key=jax.random.key(step))
        plan_state, next_state = plan.state, model(state, plan.action)
        expected = float(plan.info["expected_return"])
        assert expected >= promised - 1e-5
        promised = expected - float(closeness(state, plan.action, next_state))
        state = next_state


def test_icem_tries_the_mean_in_the_last_round():
    """With the mean as the only finite sequence, random samples alone would miss it."""
    planner = ICEM(horizon=5, num_samples=16, num_elites=4, num_kept=0, num_iterations=1)
    plan = plan_once(planner, make_spec(), make_model(low=(0.0, 0.0), high=(0.0, 0.0)))
    assert plan.info["num_nonfinite"] == 15
    assert not plan.info["fallback"]
    np.testing.assert_array_equal(plan.action, 0.0)


def test_noise_drawn_in_rows_is_the_noise_of_its_shape():
    planner, key = ICEM(horizon=6, num_samples=4, num_elites=2, num_kept=1), jax.random.key(0)
    white = jax.random.normal(key, (planner.num_iterations, 4, 6, 2))
    expected = jnp.einsum("tu,rnua->rnta", noise_basis(6, 2.5), white)
    np.testing.assert_allclose(coloured_noise(planner, 2.5, 2, key), expected, atol=1e-6)


def imagined_rounds(planner) -> list[np.ndarray]:
    """The sequences [N, H, A] that one plan scores, round by round."""
    rounds = []

    def score(actions):
        rounds.append(np.asarray(actions))
        return -jnp.abs(actions - 0.5).sum((1, 2))

    with jax.disable_jit():
        planner.search(planner.init(make_spec()), score, jax.random.key(0))
    return rounds


def test_icem_samples_decay_but_leave_two_for_each_elite():
    planner = ICEM(horizon=5, num_samples=64, num_elites=6, num_kept=3, num_iterations=4, decay=2.0)
    rounds = imagined_rounds(planner)
    assert [len(actions) for actions in rounds] == [64, 32, 16, 12]
    assert planner.evaluations_per_action == 5 * (64 + 32 + 16 + 12)
    # The elites of a round take part in the next, and a plan still gets better.
    scores = [np.abs(actions - 0.5).sum((1, 2)).min() for actions in rounds]
    assert scores == sorted(scores, reverse=True) and scores[-1] < 0.8 * scores[0]


def test_icem_that_does_not_decay_is_one_loop_with_the_same_numbers():
    """A decay too small to take a sample away goes round by round instead of in a loop."""
    planner = make("icem", num_iterations=3)
    loop, unrolled = (
        plan_once(dataclasses.replace(planner, decay=decay), make_spec(), make_model())
        for decay in (1.0, 1.0 + 1e-6)
    )
    np.testing.assert_allclose(loop.action, unrolled.action, rtol=1e-5)
    assert loop.info.keys() == unrolled.info.keys()


def test_icem_tries_the_mean_in_the_last_of_fewer_samples():
    planner = ICEM(horizon=5, num_samples=16, num_elites=2, num_kept=0, num_iterations=2, decay=2.0)
    plan = plan_once(planner, make_spec(), make_model(low=(0.0, 0.0), high=(0.0, 0.0)))
    assert plan.info["num_nonfinite"] == 16 + 7
    np.testing.assert_array_equal(plan.action, 0.0)


def test_noise_between_knots_is_straight_and_as_wide_as_any():
    basis = noise_basis(13, 2.0, knots=4)  # knots at 0, 4, 8 and 12
    np.testing.assert_allclose((basis**2).sum(1), 1.0, rtol=1e-5)
    unscaled = np.stack([np.interp(np.arange(13), [0, 4, 8, 12], basis[::4, k]) for k in range(4)])
    ratio = basis / np.where(np.abs(unscaled.T) > 1e-6, unscaled.T, np.nan)
    np.testing.assert_allclose(ratio, np.nanmean(ratio, 1, keepdims=True) + 0 * ratio, rtol=1e-4)
    np.testing.assert_array_equal(noise_basis(5, 1.0, knots=9), coloured_basis(5, 1.0))


def test_icem_can_draw_its_noise_at_knots():
    spread = {}
    for knots in (0, 2):
        planner = ICEM(horizon=9, num_samples=512, num_iterations=1, noise_beta=0.0, knots=knots)
        (actions,) = imagined_rounds(dataclasses.replace(planner, init_std=0.1, num_kept=0))
        bends = np.diff(actions, n=2, axis=1)
        spread[knots] = bends.std() / actions.std()
    assert spread[2] < 0.1 * spread[0]
    with pytest.raises(UserError, match="knots"):
        ICEM(knots=1)


@pytest.mark.parametrize("planner_class", [ICEM, MPPI])
@pytest.mark.parametrize("exponent", [-1.0, 50.0, np.nan])
def test_the_colour_of_the_noise_has_limits(planner_class, exponent):
    with pytest.raises(UserError, match="noise_beta"):
        planner_class(noise_beta=exponent)


@pytest.mark.parametrize("settings", [{"num_kept": 20}, {"num_elites": 0}, {"momentum": 1.0}])
def test_icem_refuses_settings_that_contradict_each_other(settings):
    with pytest.raises(UserError, match=f"ICEM's {next(iter(settings))}"):
        make("icem", **settings)


RAMP = jnp.linspace(-0.9, 0.9, SMALL["horizon"])[:, None] * jnp.ones((1, 2))


@pytest.mark.parametrize("name", ["icem", "mppi"])
def test_the_next_step_plans_on_from_the_mean_without_its_executed_action(name):
    """With next to no noise a plan is its mean: shifted by one step, the last action repeated."""
    planner = make(name, init_std=1e-7, noise_std=1e-7)
    start = planner.init(make_spec())
    if name == "icem":
        state = ICEMState(start.start._replace(mean=RAMP), jnp.stack([RAMP] * planner.num_kept))
    else:
        state = start._replace(mean=RAMP)
    plan = planner.plan(state, make_model(), closeness, jnp.zeros(3), key=jax.random.key(0))
    mean = plan.state.start.mean if name == "icem" else plan.state.mean
    np.testing.assert_allclose(mean, jnp.concatenate([RAMP[1:], RAMP[-1:]]), atol=1e-5)
    np.testing.assert_allclose(plan.action, RAMP[1], atol=1e-5)


def test_icem_momentum_is_the_share_of_the_old_mean():
    def mean_after_a_round(momentum):
        planner = make("icem", num_iterations=1, momentum=momentum)
        start, kept = planner.init(make_spec())
        state, key = ICEMState(start._replace(mean=RAMP), kept), jax.random.key(0)
        plan = planner.plan(state, make_model(), closeness, jnp.zeros(3), key=key)
        return plan.state.start.mean

    old, new = jnp.concatenate([RAMP[1:], RAMP[-1:]]), mean_after_a_round(0.0)
    assert jnp.abs(new - old).max() > 0.1
    np.testing.assert_allclose(mean_after_a_round(0.2), 0.2 * old + 0.8 * new, atol=1e-5)


@pytest.mark.parametrize("planner", [ICEM(), MPPI()])
def test_noise_scaled_by_the_range_needs_a_range(planner):
    with pytest.raises(UserError, match="unbounded"):
        planner.init(make_spec(low=(-np.inf,), high=(np.inf,)))


def test_mppi_weights_are_a_softmax_in_units_of_the_spread():
    returns = jnp.array([1.0, 2.0, 4.0])
    expected = np.exp(np.array(returns) / (0.5 * np.std(returns)))
    np.testing.assert_allclose(weigh(returns, 0.5), expected / expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        weigh(100.0 * returns + 7.0, 0.5), expected / expected.sum(), rtol=1e-4
    )


def test_mppi_weights_ignore_what_is_not_finite_and_ties():
    np.testing.assert_allclose(weigh(jnp.array([3.0, -jnp.inf, 3.0]), 0.5), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(weigh(jnp.full(2, -jnp.inf), 0.5), [0.0, 0.0])


# Coloured noise


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5, 6.0])
def test_noise_has_unit_variance_and_the_spectrum_s_correlations(exponent):
    length = 20
    basis = coloured_basis(length, exponent).astype(float)
    covariance = basis @ basis.T
    np.testing.assert_allclose(np.diag(covariance), 1.0, atol=1e-5)

    # The power f^-exponent summed over both signs of f, the constant at the lowest frequency.
    frequencies = np.arange(1, length + 1) / (2 * length)
    power = 2 * frequencies**-exponent
    power[-1] /= 2  # the highest frequency has one sign only
    constant = frequencies[0] ** -exponent
    for lag in (1, 5):
        expected = constant + np.sum(power * np.cos(2 * np.pi * frequencies * lag))
        expected /= constant + power.sum()
        assert covariance[3, 3 + lag] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_power_of_sampled_noise_falls_with_the_exponent(exponent):
    length = 256
    white = np.random.default_rng(0).standard_normal((400, length))
    noise = white @ coloured_basis(length, exponent).T
    # The window keeps the strong low frequencies from leaking over the weak high ones.
    power = np.mean(np.abs(np.fft.rfft(noise * np.hanning(length))) ** 2, axis=0)
    band = slice(5, length // 4)
    frequencies = np.fft.rfftfreq(length)
    slope = np.polyfit(np.log(frequencies[band]), np.log(power[band]), 1)[0]
    assert slope == pytest.approx(-exponent, abs=0.1)


def test_the_end_of_a_sequence_is_not_tied_to_its_start():
    covariance = coloured_covariance(20, 2.5)
    assert covariance[0, 1] > 0.9
    assert abs(covariance[0, -1]) < 0.3


# The guide


def test_the_documented_planner_works(tmp_path, registries):
    guide = (Path(__file__).parents[1] / "docs" / "planners.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "shooting.py").write_text(code)
    load_plugin(str(tmp_path / "shooting.py"))

    planner = make("shooting", horizon=2)
    plan = plan_once(planner, make_spec(), make_model())
    assert plan.info["expected_return"] > 1.5  # two steps near (1, 1, 1)
    np.testing.assert_allclose(plan.action, 1.0, atol=0.5)


# Hope


class TwoOutputs(eqx.Module):
    """Stays where it is, and says how sure of it it is."""

    spread: Float[Array, "2"]

    def __call__(self, inputs):
        return jnp.zeros(2)

    def std(self, inputs):
        return self.spread


def hopeful(reward, spread, optimism=2.0):
    spec = Spec(2, 1, (-1.0,), (1.0,), 5, Encoding.differences(2))
    predictor, normalizer = TwoOutputs(jnp.array(spread)), Normalizer.identity(spec, 1).select(0)
    model = optimistic(DynamicsModel(predictor, normalizer, spec), reward, optimism)
    return model(jnp.array([1.0, -1.0]), jnp.zeros(1)) - jnp.array([1.0, -1.0])


def test_hope_moves_the_state_to_where_most_is_paid_within_its_spread():
    """Of all moves in the ellipsoid Σ⁻¹x = 2 the best one, for a reward that is linear."""

    def reward(state, action, next_state):
        return 3.0 * next_state[0] - 4.0 * next_state[1]

    move = hopeful(reward, [0.1, 0.3])
    angles = np.linspace(0, 2 * np.pi, 20_001)
    within = 2.0 * np.array([0.1 * np.cos(angles), 0.3 * np.sin(angles)])
    best = within[:, np.argmax(3.0 * within[0] - 4.0 * within[1])]
    np.testing.assert_allclose(move, best, atol=1e-3)
    np.testing.assert_allclose(hopeful(reward, [0.1, 0.3], optimism=4.0), 2 * move, rtol=1e-5)


def test_nothing_is_hoped_for_where_the_model_is_sure_or_nothing_is_paid():
    np.testing.assert_array_equal(hopeful(lambda s, a, n: n[0], [0.0, 0.3]), 0.0)
    np.testing.assert_array_equal(hopeful(lambda s, a, n: 0.0 * n[0], [0.1, 0.3]), 0.0)


def test_hope_stays_finite_at_a_kink_of_the_reward():
    """The norm has no slope at the origin, where this one is."""
    move = hopeful(lambda s, a, n: -jnp.linalg.norm(n - s), [0.1, 0.3])
    np.testing.assert_array_equal(move, 0.0)


def test_a_model_that_knows_no_spread_is_planned_with_as_it_is():
    def own(state, action):
        return state

    assert optimistic(own, lambda s, a, n: n[0], 2.0) is own
