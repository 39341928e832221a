"""Cost of one training update, against a bare Adam pass over arrays of the same size.

Pusher-sized: state 10, action 2, target 12-200-200-10, batch 100, at task 5 of 5. One core, one
thread; the candidates take turns and medians are compared, so that a noisy machine slows them
alike. Run with: python benchmarks/updates.py
"""

import os
import resource
import statistics
import time

CORE = sorted(os.sched_getaffinity(0))[-1]
os.sched_setaffinity(0, {CORE})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet  # noqa: E402
from hypercrl.encoding import Encoding  # noqa: E402
from hypercrl.learners.finetune import FineTune  # noqa: E402
from hypercrl.learners.hypercrl import HyperCRL  # noqa: E402
from hypercrl.types import Learner, Spec, Transitions  # noqa: E402

NUM_TASKS = 5
CAPACITY = 5_000
UPDATES = 100  # in one timed call; a session of the suites has 200 to 2,000
ROUNDS = 7
SPEC = Spec(10, 2, (-1.0,) * 2, (1.0,) * 2, 100, Encoding.differences(10))
CHUNKED = ChunkedHypernet(hidden=(20, 20), chunk_size=2_000)
CANDIDATES = {
    "full": HyperCRL(lookahead=False),
    "full, look-ahead": HyperCRL(lookahead=True),
    "chunked": HyperCRL(lookahead=False, hypernet=CHUNKED),
    "chunked, look-ahead": HyperCRL(lookahead=True, hypernet=CHUNKED),
    "fine-tuning": FineTune(),
}


def random_data() -> Transitions:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(CAPACITY, 10)).astype(np.float32)
    actions = rng.normal(size=(CAPACITY, 2)).astype(np.float32)
    following = states + 0.1 * np.tanh(states @ rng.normal(size=(10, 10)).astype(np.float32))
    return Transitions(*map(jnp.array, (states, actions, following, np.int32(CAPACITY))))


def session(learner: Learner):
    """A function that runs `UPDATES` updates at the last task."""
    key = jax.random.key(0)
    state = learner.init(SPEC, NUM_TASKS, key=key)
    data = random_data()
    for task in range(NUM_TASKS):
        state = learner.start_task(state, task, key=jax.random.fold_in(key, task))
        state, _ = learner.update(state, data, None, num_updates=1, key=key)

    def run() -> None:
        after, _ = learner.update(state, data, None, num_updates=UPDATES, key=key)
        jax.block_until_ready(after.params)

    return run, learner.num_parameters(state)


def bare_adam(num_parameters: int):
    """`UPDATES` Adam steps on one flat array, with a gradient that is already there."""
    adam = optax.adam(1e-4)
    params = jnp.zeros(num_parameters)
    gradient = jnp.linspace(-1.0, 1.0, num_parameters)

    @jax.jit
    def steps(params, state, gradient):
        def body(_, carry):
            params, state = carry
            updates, state = adam.update(gradient, state)
            return optax.apply_updates(params, updates), state

        return jax.lax.fori_loop(0, UPDATES, body, (params, state))

    start = adam.init(params)
    return lambda: jax.block_until_ready(steps(params, start, gradient))


def main() -> None:
    runs, sizes = {}, {}
    for name, learner in CANDIDATES.items():
        runs[name], sizes[name] = session(learner)
    runs["bare Adam"] = bare_adam(sizes["full"])
    sizes["bare Adam"] = sizes["full"]
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) / UPDATES * 1e3)
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'update at task 5':<22}{'parameters':>12}{'ms':>9}{'× bare Adam':>14}")
    for name, value in median.items():
        print(f"{name:<22}{sizes[name]:>12,}{value:>9.2f}{value / median['bare Adam']:>14.2f}")
    ratio = median["full"] / median["chunked"]
    print(f"\nchunked is {ratio:.1f} × cheaper than full (without look-ahead)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process, with all of the above: {peak:,.0f} MB")


if __name__ == "__main__":
    main()
