"""How near plans come to the matrix products they cannot do without, on one core.

At the paper's budget a pusher plan evaluates the model 60,000 times: 500 sequences of 20 steps
in 6 rounds, which is 120 times the products [500, 12] x [12, 200] x [200, 200] x [200, 10] in
float32. Those products alone, in the faster of NumPy and JAX, are the floor; a value behind the
horizon adds its own products to it. Beside it stand the networks as they are, with their biases
and activations: what a plan costs before it encodes a state, pays a reward or elects a sequence.
Measured are the paper's pusher plan and the plan of every suite's first preset. All are timed turn
by turn and compared by medians, so that another process on the machine disturbs them alike.

    python benchmarks/planning.py
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.model import MLP, DynamicsModel
from hypercrl.experiment.config import RunConfig, resolve
from hypercrl.learning import critic
from hypercrl.planning.sampling import SamplingPlanner
from hypercrl.registry import suites
from hypercrl.types import Suite

METHOD = "single"  # any will do: all plan with the same target network
SMALL = 0.1  # of usual weights: a random model's numbers then stay ordinary
TARGETS = {"paper": 0.65, "laptop": 0.9}  # shares of the floor


def main(names: tuple[str, ...] = (), repeats: int = 50) -> None:
    """Time plans and their floors.

    Args:
        names: Suites to measure; all of them unless told.
        repeats: Turns that the medians are taken over.
    """
    chosen = [(name, "laptop") for name in names or suites.names()]
    print(
        f"{'plan':24}{'evaluations':>12}{'plan ms':>9}{'floor ms':>10}{'share':>7}{'target':>8}"
        f"{'networks ms':>13}{'share':>7}"
    )
    for name, preset in [("pusher", "paper"), *chosen]:
        measure(resolve(name, METHOD, preset=preset), repeats)


def measure(config: RunConfig, repeats: int) -> None:
    suite, planner = config.build_suite(), config.planner
    model = build_model(config, suite)
    assert isinstance(planner, SamplingPlanner)
    networks = [model.predictor.network]
    if config.critic.learns:
        layout = config.critic.layout(suite.spec)
        weights = layout.init(key=jax.random.key(3))
        networks.append(MLP(layout.unflatten(weights), critic.ACTIVATION))
    work = [(mlp, rows) for mlp in networks for rows in planner.samples_by_round]
    calls: dict[str, Callable[[], object]] = {
        "NumPy": in_turn([products_in_numpy(*each, planner.horizon) for each in work]),
        "JAX": in_turn([products_in_jax(*each, planner.horizon) for each in work]),
        "networks": in_turn([networks_in_jax(*each, planner.horizon) for each in work]),
        "plan": planning(config, suite, model),
    }
    medians = time_in_turns(calls, repeats)
    plan, whole = medians["plan"], medians["networks"]
    floor = min(medians["NumPy"], medians["JAX"])
    title = f"{config.suite}, {config.preset}"
    print(
        f"{title:24}{planner.evaluations_per_action:12,}{1e3 * plan:9.2f}{1e3 * floor:10.2f}"
        f"{floor / plan:7.0%}{TARGETS[config.preset]:8.0%}{1e3 * whole:13.2f}{whole / plan:7.0%}",
        flush=True,
    )


def in_turn(calls: list[Callable[[], None]]) -> Callable[[], None]:
    def call():
        for one in calls:
            one()

    return call


def build_model(config: RunConfig, suite: Suite) -> DynamicsModel:
    network = config.learner.network  # pyright: ignore[reportAttributeAccessIssue]
    weights = network.layout(suite.spec).init(key=jax.random.key(0))
    normalizer = Normalizer.identity(suite.spec, num_tasks=1).select(0)
    return network.model(suite.spec, SMALL * weights, {}, normalizer)


def planning(config: RunConfig, suite: Suite, model: DynamicsModel) -> Callable[[], None]:
    planner, reward = config.planner, suite.tasks[0].reward
    state = planner.init(suite.spec)
    observation = jnp.asarray(suite.tasks[0].make(None).reset(seed=0)[0])
    value = None
    if config.critic.learns:
        value = config.critic.init(suite.spec, key=jax.random.key(2)).value
    key = jax.random.key(1)

    def call():
        plan = planner.plan(state, model, reward, observation, key=key, value=value)
        plan.action.block_until_ready()

    return call


def products_in_numpy(mlp: MLP, rows: int, num_steps: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    matrices = [np.asarray(matrix) for matrix, _ in mlp.layers]
    inputs = [rng.standard_normal((rows, len(m))).astype(np.float32) for m in matrices]
    outputs = [x @ m for x, m in zip(inputs, matrices, strict=True)]

    def call():
        for _ in range(num_steps):
            for x, matrix, out in zip(inputs, matrices, outputs, strict=True):
                np.matmul(x, matrix, out=out)

    return call


def products_in_jax(mlp: MLP, rows: int, num_steps: int) -> Callable[[], None]:
    def products(mlp, x):
        for matrix, _ in mlp.layers:
            x = x @ matrix
        return x

    return repeated(products, mlp, rows, num_steps)


def networks_in_jax(mlp: MLP, rows: int, num_steps: int) -> Callable[[], None]:
    return repeated(lambda mlp, x: mlp(x), mlp, rows, num_steps)


def repeated(function: Callable, mlp: MLP, rows: int, num_steps: int) -> Callable[[], None]:
    """Each step takes a number of the one before it, or the compiler would do it only once."""

    @eqx.filter_jit
    def chain(mlp, inputs):
        def step(inputs, _):
            return inputs.at[:, :1].set(jnp.tanh(function(mlp, inputs)[:, :1])), None

        return jax.lax.scan(step, inputs, length=num_steps)[0]

    inputs = jax.random.normal(jax.random.key(2), (rows, len(mlp.layers[0][0])))
    return lambda: chain(mlp, inputs).block_until_ready()


def time_in_turns(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
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
