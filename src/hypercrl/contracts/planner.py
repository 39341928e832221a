"""What every planner promises, tried on linear models that have a fence around their actions."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.contracts.promises import Promise, require
from hypercrl.encoding import Encoding
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner, Spec

SMALL = {"horizon": 4, "num_samples": 128, "num_elites": 8, "num_iterations": 2}
"""What a planner is tried with, if it has such settings."""


class Fenced(eqx.Module):
    """s' = A s + B a while the action is inside its fence, `poison` outside."""

    a: Float[Array, "S S"]
    b: Float[Array, "S A"]
    low: Float[Array, "A"]
    high: Float[Array, "A"]
    poison: Float[Array, ""]

    def __call__(self, state, action):
        inside = ((action >= self.low) & (action <= self.high)).all()
        return jnp.where(inside, self.a @ state + self.b @ action, self.poison)


def make_spec(low=(-1.0, -1.0), high=(1.0, 1.0)) -> Spec:
    return Spec(3, len(low), low, high, 40, Encoding.differences(3))


def make_model(low=(-np.inf, -np.inf), high=(np.inf, np.inf), poison=np.nan) -> Fenced:
    b = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    return Fenced(jnp.eye(3), b, jnp.array(low), jnp.array(high), jnp.array(poison))


def closeness(state, action, next_state):
    """Between 0 and 1, highest at (1, 1, 1): from the origin, the action (1, 1) goes there."""
    return jnp.exp(-jnp.sum((next_state - 1.0) ** 2))


def make(name: str, **settings: Any) -> Planner:
    """A registered planner; settings that it does not have are left out."""
    cls = planners.get(name)
    own = {field.name for field in dataclasses.fields(cls)}
    return cls(**{key: value for key, value in {**SMALL, **settings}.items() if key in own})


def plan_once(planner: Planner, spec: Spec, model: Fenced, seed: int = 0) -> Plan:
    state = planner.init(spec)
    return planner.plan(state, model, closeness, jnp.zeros(3), key=jax.random.key(seed))


def plan_has_the_declared_shape(name: str) -> None:
    """A plan is a finite action of the suite's size and a state like the one before."""
    planner = make(name)
    state = planner.init(make_spec())
    observation: Any = np.zeros(3, np.float32)
    plan = planner.plan(state, make_model(), closeness, observation, key=jax.random.key(0))
    action = np.asarray(plan.action)
    require(action.shape == (2,), f"The action is of shape {action.shape} and not (2,).")
    require(action.dtype == np.float32, f"The action is of type {action.dtype} and not float32.")
    require(np.isfinite(action).all(), f"The action is {action}.")
    before, after = (jax.tree.map(jnp.shape, one) for one in (state, plan.state))
    require(before == after, f"The planner's state was {before} and has become {after}.")


def the_key_decides(name: str) -> None:
    """The same key gives the same plan."""
    planner, spec = make(name), make_spec(low=(-4.0, -4.0), high=(4.0, 4.0))
    first, again = (plan_once(planner, spec, make_model(), 1) for _ in range(2))
    require(eqx.tree_equal(first, again), "Two plans with the same key differ.")


def new_weights_and_steps_compile_nothing(name: str) -> None:
    """One compiled plan serves all weights, states and steps."""
    traces = []

    class Traced(Fenced):
        def __call__(self, state, action):
            traces.append(1)
            return super().__call__(state, action)

    planner = make(name)
    state, counts = planner.init(make_spec()), []
    for step in range(4):
        model = Traced(**{**vars(make_model()), "a": (1.0 + step) * jnp.eye(3)})
        observation: Any = np.full(3, step, np.float32)
        plan = planner.plan(state, model, closeness, observation, key=jax.random.key(step))
        state = plan.state
        counts.append(len(traces))
    require(
        counts == counts[:1] * 4,
        "The model is traced again at later steps; compile the plan as one `equinox.filter_jit`.",
    )


def a_future_that_is_not_finite_is_never_elected(name: str) -> None:
    """A future that leaves the finite numbers is never elected, whatever its reward."""
    for poison in (np.nan, np.inf, -np.inf):
        model = make_model(high=(0.0, np.inf), poison=poison)  # the reward asks for positive ones
        action = np.asarray(plan_once(make(name), make_spec(), model).action)
        require(
            action[0] <= 0.0,
            f"The action {action} was elected, though the model says that it leads to {poison}.",
        )


def without_a_finite_future_the_action_is_safe(name: str) -> None:
    """Where no imagined future is finite, the action is finite and within the bounds."""
    low, high = (1.0, 1.0), (3.0, 3.0)
    planner, spec = make(name), make_spec(low, high)
    plan = plan_once(planner, spec, make_model(high=(-9.0, 9.0)))
    _require_within(plan.action, low, high)
    healthy = planner.plan(plan.state, make_model(), closeness, jnp.zeros(3), key=jax.random.key(1))
    require(np.isfinite(healthy.action).all(), "The plan after it is not finite either.")


def actions_stay_within_the_bounds(name: str) -> None:
    """Actions lie within the suite's bounds at every step."""
    planner, low, high = make(name), (-0.2, 2.0), (1.0, 3.0)
    state = planner.init(make_spec(low, high))
    for step in range(3):
        plan = planner.plan(state, make_model(), closeness, jnp.zeros(3), key=jax.random.key(step))
        state = plan.state
        _require_within(plan.action, low, high)


def evaluations_are_counted_as_they_happen(name: str) -> None:
    """`evaluations_per_action` is how often the model is asked behind one action."""
    calls = []

    class Counted(Fenced):
        def __call__(self, state, action):
            jax.debug.callback(lambda _: calls.append(1), action)
            return super().__call__(state, action)

    planner = make(name, num_samples=10)
    plan_once(planner, make_spec(), Counted(**vars(make_model())))
    jax.effects_barrier()
    declared = planner.evaluations_per_action
    require(
        len(calls) == declared,
        f"evaluations_per_action says {declared}, but the model was asked {len(calls)} times.",
    )


def _require_within(action: Any, low: tuple[float, ...], high: tuple[float, ...]) -> None:
    action = np.asarray(action)
    inside = np.isfinite(action).all() and (action >= low).all() and (action <= high).all()
    require(inside, f"The action {action} is not between {low} and {high}.")


PROMISES: tuple[Promise, ...] = (
    plan_has_the_declared_shape,
    the_key_decides,
    new_weights_and_steps_compile_nothing,
    a_future_that_is_not_finite_is_never_elected,
    without_a_finite_future_the_action_is_safe,
    actions_stay_within_the_bounds,
    evaluations_are_counted_as_they_happen,
)
