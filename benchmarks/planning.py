"""How near a plan comes to the matrix products it cannot do without, on one core.

At the paper's budget a pusher plan evaluates the model 60,000 times: 500 sequences of 20 steps
in 6 rounds, which is 120 times the products [500, 12] x [12, 200] x [200, 200] x [200, 10] in
float32. Those products alone, in the faster of NumPy and JAX, are the floor. Everything is
timed in one run, turn by turn, and compared by medians, so that another process on the
machine disturbs all of them alike.

    python benchmarks/planning.py
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.model import DynamicsModel, Network
from hypercrl.encoding import Encoding
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.planning.mppi import MPPI
from hypercrl.types import Planner, Spec

SPEC = Spec(
    state_dim=10,
    action_dim=2,
    action_low=(-1.0, -1.0),
    action_high=(1.0, 1.0),
    episode_length=100,
    encoding=Encoding.differences(10),
)
NETWORK = Network(hidden=(200, 200))
GOALS = np.array([[0.07, -0.08], [0.07, 0.08], [0.23, -0.08], [0.23, 0.08]], np.float32)
DECAY = 0.9  # of the linear chain per step, so that its numbers stay ordinary
TARGET = 0.65  # of the floor


def main(repeats: int = 50) -> None:
    """Time the planners and the floor.

    Args:
        repeats: Turns that the medians are taken over.
    """
    model = build_model()
    cem = CEM()
    num_steps = cem.evaluations_per_action // cem.num_samples
    matrices = [np.asarray(matrix) for matrix, _ in model.predictor.network.layers]
    calls = {
        "products, NumPy": products_in_numpy(matrices, cem.num_samples, num_steps),
        "products, JAX": products_in_jax(matrices, cem.num_samples, num_steps),
        "cem, paper's budget": planning(cem, model),
        "icem": planning(ICEM(), model),
        "mppi": planning(MPPI(), model),
    }
    medians = time_in_turns(calls, repeats)
    for name, seconds in medians.items():
        print(f"{name:20s} {1e3 * seconds:7.2f} ms")
    floor = min(seconds for name, seconds in medians.items() if name.startswith("products"))
    share = floor / medians["cem, paper's budget"]
    print(f"cem runs at {share:.0%} of the floor (target: {TARGET:.0%})")


def build_model() -> DynamicsModel:
    weights = NETWORK.layout(SPEC).init(key=jax.random.key(0))
    normalizer = Normalizer.identity(SPEC, num_tasks=1).select(0)
    return NETWORK.model(SPEC, 0.1 * weights, normalizer)


def reward(state, action, next_state):
    """The pusher's: four corners near their goals, less the effort."""
    distances = jnp.linalg.norm(next_state[2:].reshape(4, 2) - GOALS, axis=-1)
    return jnp.sum(1.0 - jnp.tanh(10.0 * distances)) - 0.25 * jnp.linalg.norm(action)


def planning(planner: Planner, model: DynamicsModel) -> Callable[[], None]:
    state = planner.init(SPEC)
    observation = jnp.zeros(SPEC.state_dim)
    key = jax.random.key(1)

    def call():
        planner.plan(state, model, reward, observation, key=key).action.block_until_ready()

    return call


def products_in_numpy(matrices, num_samples: int, num_steps: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((num_samples, len(m))).astype(np.float32) for m in matrices]
    outputs = [x @ m for x, m in zip(inputs, matrices, strict=True)]

    def call():
        for _ in range(num_steps):
            for x, matrix, out in zip(inputs, matrices, outputs, strict=True):
                np.matmul(x, matrix, out=out)

    return call


def products_in_jax(matrices, num_samples: int, num_steps: int) -> Callable[[], None]:
    """Each step takes the one before it as input, or the compiler would do it only once."""
    gain = np.linalg.multi_dot([matrices[0][: SPEC.state_dim], *matrices[1:]])
    scale = DECAY / np.abs(np.linalg.eigvals(gain)).max()
    matrices = [jnp.asarray(m) for m in [scale * matrices[0], *matrices[1:]]]

    @jax.jit
    def chain(matrices, states, actions):
        def step(x, _):
            x = jnp.concatenate([x, actions], axis=1)
            for matrix in matrices:
                x = x @ matrix
            return x, None

        return jax.lax.scan(step, states, length=num_steps)[0]

    states = jax.random.normal(jax.random.key(2), (num_samples, SPEC.state_dim))
    actions = jax.random.normal(jax.random.key(3), (num_samples, SPEC.action_dim))
    return lambda: chain(matrices, states, actions).block_until_ready()


def time_in_turns(calls: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each call; the first, which compiles, is not counted."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


if __name__ == "__main__":
    tyro.cli(main)
