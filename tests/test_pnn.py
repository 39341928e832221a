"""Progressive networks: the columns written out by hand, and a first column that stands alone."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import key

from hypercrl.contracts.sequence import linear_data, make_spec
from hypercrl.dynamics.mlp import Layout
from hypercrl.dynamics.model import Network
from hypercrl.dynamics.progressive import Progressive
from hypercrl.learners.pnn import PNN
from hypercrl.learners.single import Single
from sequences import SIXTEEN

SPEC = make_spec()
SMALL = PNN(network=Network(hidden=(6, 5)), adapter=3, training=SIXTEEN)


def random_columns(network: Progressive):
    """Columns whose adapters are not silent."""
    keys = jax.random.split(key(0), network.num_columns)
    draw = jax.jit(jax.vmap(lambda i, k: network.init(i, key=k)))
    columns = draw(jnp.arange(network.num_columns), keys)
    rng = np.random.default_rng(0)
    up = tuple(jnp.asarray(rng.normal(size=x.shape), jnp.float32) for x in columns.up)
    return columns._replace(up=up)


def test_columns_equal_the_equation_written_out():
    network = Progressive(Layout((5, 6, 5, 3)), num_columns=3, adapter=3)
    columns = random_columns(network)
    down, up = jax.tree.map(np.asarray, (columns.down, columns.up))
    x = np.asarray(jax.random.normal(key(7), (8, 5)))

    @jax.jit
    def forward(k, x):
        column = jax.tree.map(lambda a: a[k], columns)
        return network.apply(column, network.earlier(columns, k, x), x)[0]

    def relu(z):
        return np.maximum(z, 0.0)

    hidden = []  # of each column, the activations of its two hidden layers
    for k in range(3):
        (w1, b1), (w2, b2), (w3, b3) = (
            (np.asarray(w), np.asarray(b)) for w, b in network.layout.unflatten(columns.weights[k])
        )
        sides = [np.zeros((8, 3)), np.zeros((8, 3))]
        for j, old in enumerate(hidden):
            for layer, n in enumerate((6, 5)):
                sides[layer] += old[layer] @ down[layer][k, n * j : n * (j + 1)]
        h1 = relu(x @ w1 + b1)
        h2 = relu(h1 @ w2 + b2 + relu(sides[0]) @ up[0][k])
        raw = h2 @ w3 + b3 + relu(sides[1]) @ up[1][k]
        hidden.append((h1, h2))

        np.testing.assert_allclose(forward(jnp.array(k), x), raw, rtol=1e-4, atol=1e-5)


def test_first_column_learns_like_a_network_of_its_own():
    data = linear_data(SPEC, 0, count=80, capacity=80)
    alone = Single(network=SMALL.network, training=SIXTEEN)
    states = []
    for learner in (SMALL, alone):
        states.append(learner.start_task(learner.init(SPEC, 3, key=key(0)), 0, key=key(1)))
    weights = states[0].params.tasks.weights
    states[1] = states[1].replace(params=states[1].params._replace(tasks=weights))
    for i, learner in enumerate((SMALL, alone)):
        states[i], _ = learner.update(states[i], data, None, num_updates=30, key=key(2))
    learnt = states[1].params.tasks[0]
    assert jnp.abs(learnt - weights[0]).max() > 1e-2
    np.testing.assert_allclose(states[0].params.tasks.weights[0], learnt, rtol=1e-4, atol=1e-5)


def test_a_new_column_reads_the_old_ones_and_leaves_them_alone():
    state = SMALL.init(SPEC, 3, key=key(0))
    for task in range(2):
        data = linear_data(SPEC, task, count=80, capacity=80)
        before = state = SMALL.start_task(state, task, key=key(task))
        state, _ = SMALL.update(state, data, None, num_updates=30, key=key(task))
    old, new = (s.params.tasks for s in (before, state))
    for then, now in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True):
        np.testing.assert_array_equal(then[0], now[0])
        assert not np.array_equal(then[1], now[1])
    cut = jax.tree.map(lambda x: x.at[0].set(0.0), state.params.tasks)
    deaf = state.replace(params=state.params._replace(tasks=cut))
    probe = (jnp.ones(SPEC.state_dim), jnp.ones(SPEC.action_dim))
    heard, unheard = (SMALL.predict(s, 1)(*probe) for s in (state, deaf))
    assert jnp.abs(heard - unheard).max() > 1e-4
