"""Step sizes that shrink in the course of a session."""

from statistics import fmean

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hypercrl.contracts.sequence import SPEC, data, error, key
from hypercrl.data.memory import TaskMemory
from hypercrl.learning import session
from hypercrl.learning.session import run_updates
from hypercrl.learning.training import Training, shrink
from hypercrl.registry import learners
from sequences import make

slow = pytest.mark.slow
NUM_SESSIONS = 6
ANNEALING = [n for n in learners.names() if hasattr(learners.get(n), "training")]


def learnt(name: str, anneal: bool) -> float:
    """The mean error after sessions with a step size too large to settle.

    Several, because where an unsettled one ends is chance, and another on every kind of processor.
    """
    learner = make(name, training=Training(batch_size=32, anneal=anneal), learning_rate=0.03)
    memory = TaskMemory(SPEC, 2, len(data(0).states), learner.memory_share).view()
    state = learner.start_task(learner.init(SPEC, 2, key=key(0)), 0, key=key(1))
    ends = (
        learner.update(state, data(0), memory, num_updates=400, key=key(2, number))[0]
        for number in range(NUM_SESSIONS)
    )
    return fmean(error(learner, end, 0) for end in ends)


def test_steps_shrink_along_half_a_cosine():
    steps = jnp.array([2.0])
    found = [float(shrink(steps, True, jnp.array(p))[0]) for p in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(found, [2.0, 1.0, 0.0], atol=1e-6)
    assert shrink(steps, False, jnp.array(0.9)) is steps


def test_progress_goes_through_the_session():
    def step(carry, _, progress):
        return carry.at[carry[-1].astype(int)].set(progress).at[-1].add(1), {}

    found, _ = jax.jit(lambda n: run_updates(step, jnp.zeros(5), n, key(0)))(4)
    np.testing.assert_allclose(found[:4], [0.0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize("cache", [0, 4_000_000], ids=["early", "at once"])
def test_a_step_receives_what_is_derived_from_its_own_carry(cache, monkeypatch):
    monkeypatch.setattr(session, "_CACHE_BYTES", cache)

    def step(carry, double, _, progress):
        return carry + 1.0, {"double": double, "carry": carry}

    @jax.jit
    def run(num_updates):
        start = jnp.ones(())
        return session.run_derived_updates(step, lambda c: 2 * c, start, num_updates, key(0))

    carry, info = run(4)
    assert (float(carry), float(info["carry"]), float(info["double"])) == (5.0, 2.5, 5.0)


@pytest.mark.parametrize(
    "name",
    [  # the baselines share one session, and both hypernetwork methods have their own
        pytest.param(name, marks=() if name in ("finetune", "hypercrl", "hypercrl_mt") else slow)
        for name in ANNEALING
    ],
)
def test_a_session_ends_at_rest(name):
    assert learnt(name, anneal=True) < 0.7 * learnt(name, anneal=False)
