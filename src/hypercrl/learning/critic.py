"""What comes after the horizon: a value of states, learnt from what the planner has earned.

    V(s_t)  ←  Σ_{k<n} γ^k r_{t+k} + γ^n V̄(s_{t+n})

A planner that looks a second ahead walks into what is good for a second. A half-cheetah dives
onto its back, which is the quickest way forward until it lies there and never gets up, because
rising does not pay within the horizon either. With V behind every imagined state
(`planning.rollout`) a shorter horizon sees further.

Rewards are known, so nothing is kept for V but the transitions that the model learns from. V̄ is
a slow average of V. The target is met not in the mean but in an upper expectile (as in IQL,
Kostrikov et al. 2022): a task's first transitions were earned by bad plans, and the value of a
state is what a good one would earn from there. Rows that a time limit or a cut ends bootstrap
like all others.

V belongs to one task. Its weights are kept when the task is over, and counted.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hypercrl import checks
from hypercrl.data.normalizer import moments
from hypercrl.dynamics.mlp import Layers, Layout, apply_mlp
from hypercrl.learning.adam import adam
from hypercrl.learning.session import run_updates
from hypercrl.types import Reward, Spec, Transitions

FARTHEST = 5.0  # standard deviations from the data that a feature may seem to be
ACTIVATION = "swish"  # between the layers of V


class StateValue(eqx.Module):
    """V of one task: an MLP of the state's normalised features."""

    weights: Float[Array, "W"]
    mean: Float[Array, "features"]
    std: Float[Array, "features"]
    reward_std: Float[Array, ""]
    critic: "Critic" = eqx.field(static=True)
    spec: Spec = eqx.field(static=True)

    def __call__(self, state: Float[Array, "S"]) -> Float[Array, ""]:
        features = (self.spec.encoding.features(state) - self.mean) / self.std
        layers: Layers = self.critic.layout(self.spec).unflatten(self.weights)
        # An MLP grows without bounds where there are no data, and a planner goes where V is high.
        seen = jnp.clip(features, -FARTHEST, FARTHEST)
        return apply_mlp(layers, seen, ACTIVATION)[0] * self.unit

    @property
    def unit(self) -> Float[Array, ""]:
        """What a usual reward for ever is worth: the network's output is of that order."""
        return self.reward_std / (1 - self.critic.discount)

    @property
    def num_bytes(self) -> int:
        return sum(x.nbytes for x in jax.tree.leaves(self))


class CriticState(eqx.Module):
    """What is learnt during a task; only `value` outlives it."""

    value: StateValue
    average: Float[Array, "W"]  # the weights of V̄
    optimizer: Any


@dataclass(frozen=True)
class Critic:
    """How the value behind a planner's horizon is learnt, if it is."""

    updates: int = 0
    """Gradient steps on the value in a session; 0 plans with the horizon alone (the paper's)."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers' sizes."""
    discount: float = 0.98
    """γ, a control step."""
    num_steps: int = 20
    """n, the rewards that a target is made of."""
    expectile: float = 0.9
    """How the value leans to what earned more than expected: 0.5 is the mean."""
    batch_size: int = 256
    """States in a batch."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    inertia: float = 0.99
    """Share of V̄ that outlasts an update."""

    def __post_init__(self):
        checks.at_least(self, 0, "updates", "discount", "inertia")
        checks.at_least(self, 1, "hidden", "num_steps", "batch_size")
        checks.above(self, 0, "expectile", "learning_rate")
        checks.below(self, 1, "discount", "expectile", "inertia")

    @property
    def learns(self) -> bool:
        return self.updates > 0

    def layout(self, spec: Spec) -> Layout:
        return Layout((spec.encoding.num_features, *self.hidden, 1))

    def init(self, spec: Spec, *, key: PRNGKeyArray) -> CriticState:
        """Before the first transition of a task."""
        weights = self.layout(spec).init(key=key)
        features = spec.encoding.num_features
        value = StateValue(
            weights, jnp.zeros(features), jnp.ones(features), jnp.ones(()), self, spec
        )
        return CriticState(value, weights, adam(self.learning_rate).init(weights))

    def update(
        self, state: CriticState, data: Transitions, reward: Reward, *, key: PRNGKeyArray
    ) -> CriticState:
        """One session on the current task's data, compiled as one call."""
        return _session(self, state, data, reward, key)


@eqx.filter_jit
def _session(
    critic: Critic, state: CriticState, data: Transitions, reward: Reward, key: PRNGKeyArray
) -> CriticState:
    spec, optimizer = state.value.spec, adam(critic.learning_rate)
    rewards = jax.vmap(reward)(data.states, data.actions, data.next_states)
    earned, last, discounts = sum_rewards(rewards, follows(data), critic.num_steps, critic.discount)
    features = jax.vmap(spec.encoding.features)(data.states)
    is_data = (jnp.arange(len(rewards)) < data.count)[:, None]
    _, (reward_std,) = moments(rewards[:, None], is_data)
    value = StateValue(state.value.weights, *moments(features, is_data), reward_std, critic, spec)
    # In the new unit the last layer says the same as in the old one.
    last_layer = slice(-critic.layout(spec).num_head_weights, None)
    ratio = state.value.reward_std / reward_std
    start, average = (
        weights.at[last_layer].multiply(ratio) for weights in (state.value.weights, state.average)
    )

    def evaluate(weights, states):
        return jax.vmap(eqx.tree_at(lambda v: v.weights, value, weights))(states)

    def step(carry, key, _):
        weights, average, moments = carry
        rows = jax.random.randint(key, (critic.batch_size,), 0, data.count)
        ahead = evaluate(average, data.next_states[last[rows]])
        targets = earned[rows] + discounts[rows] * ahead

        def loss(weights):
            surprise = (targets - evaluate(weights, data.states[rows])) / value.unit
            lean = jnp.where(surprise > 0, critic.expectile, 1 - critic.expectile)
            return jnp.mean(lean * surprise**2)

        change, moments = optimizer.update(jax.grad(loss)(weights), moments)
        weights = weights + change
        average = critic.inertia * average + (1 - critic.inertia) * weights
        return (weights, average, moments), {}

    carry = (start, average, state.optimizer)
    (weights, average, moments_), _ = run_updates(step, carry, critic.updates, key)
    value = eqx.tree_at(lambda v: v.weights, value, weights)
    return CriticState(value, average, moments_)


def follows(data: Transitions) -> Bool[Array, "C"]:
    """Whether the next row goes on where a row ends; it does not where an episode was over."""
    same = (data.next_states[:-1] == data.states[1:]).all(axis=1)
    rows = jnp.arange(len(data.states))
    return jnp.append(same, False) & (rows + 1 < data.count)


def sum_rewards(
    rewards: Float[Array, "C"], follows: Bool[Array, "C"], num_steps: int, discount: float
) -> tuple[Float[Array, "C"], Int[Array, "C"], Float[Array, "C"]]:
    """For each row the discounted sum of the rewards from it on, as long as rows follow each
    other and `num_steps` at most; the last row that entered it, and the discount behind that."""

    def extend(carry, _):
        total, last, weight = carry
        goes_on = follows[last]
        last = last + goes_on
        total = total + jnp.where(goes_on, weight * rewards[last], 0.0)
        return (total, last, jnp.where(goes_on, discount * weight, weight)), None

    start = (rewards, jnp.arange(len(rewards)), jnp.full(len(rewards), discount))
    return jax.lax.scan(extend, start, length=num_steps - 1)[0]
