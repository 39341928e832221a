"""A whole control step as one serialised function: observation in, action out.

    action, *state = step(observation [S], key [2], *state)

Model, reward, value and planner are inside, weights included. `jax.export` promises that the
function runs in the JAX of the next half year, on the same kind of processor. The planner's
state is a flat list of arrays that the caller hands back; the first one is given along.
"""

import contextlib
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export

from hypercrl.errors import UserError
from hypercrl.experiment import streams
from hypercrl.experiment.controller import Controller

NUM_CHECKED = 5  # steps of an episode that is played with both
SAME = 1e-5  # of the action range, between actions that were compiled apart


class PlannerStep(NamedTuple):
    """A serialised control step, and the planner's state before the first one."""

    content: bytes
    start: list[np.ndarray]


def build(controller: Controller, task: int) -> PlannerStep:
    """Trace and serialise the control step of a task, for this kind of processor."""
    spec, planner = controller.suite.spec, controller.config.planner
    model, reward = controller.model(task), controller.suite.tasks[task].reward
    value = controller.value(task)
    behind = {} if value is None else {"value": value}
    start, structure = jax.tree.flatten(planner.init(spec))
    start = [jnp.asarray(leaf) for leaf in start]
    low, high = (jnp.asarray(x, jnp.float32) for x in (spec.action_low, spec.action_high))

    @jax.jit
    def step(observation, words, *leaves):
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        state = jax.tree.unflatten(structure, leaves)
        plan = planner.plan(state, model, reward, observation, key=key, **behind)
        return jnp.clip(plan.action, low, high), *jax.tree.leaves(plan.state)

    shapes = (
        jax.ShapeDtypeStruct((spec.state_dim,), jnp.float32),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
        *(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in start),
    )
    try:
        exported = jax_export.export(step)(*shapes)
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise UserError(
            f"The planner {type(planner).__name__} cannot be exported: {reason}."
        ) from error
    return PlannerStep(bytes(exported.serialize()), [np.asarray(leaf) for leaf in start])


def check(step: PlannerStep, controller: Controller, task: int) -> float:
    """The largest difference between its actions and the controller's, of the action range.

    Over a few steps that the model itself imagines, with the same keys.
    """
    call = jax_export.deserialize(bytearray(step.content)).call
    spec, state = controller.suite.spec, list(step.start)
    model = eqx.filter_jit(controller.model(task))
    with contextlib.closing(controller.suite.tasks[task].make(None)) as env:
        observation = np.asarray(env.reset(seed=0)[0], np.float32)
    spread, worst = np.subtract(spec.action_high, spec.action_low), 0.0
    controller.reset(seed=controller.config.seed)
    for number in range(NUM_CHECKED):
        words = jax.random.key_data(streams.key(controller.config.seed, "act", number))
        action, *state = call(observation, words, *state)
        own = controller.act(observation, task)
        worst = max(worst, float((np.abs(np.asarray(action) - own) / spread).max()))
        observation = np.asarray(model(jnp.asarray(observation), jnp.asarray(own)))
    controller.reset(seed=controller.config.seed)
    return worst
