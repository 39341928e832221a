"""Progressive networks (Rusu et al. 2016): a column per task that also reads the earlier ones.

    h_i^k = σ(W_i^k h_{i−1}^k + U_i^k σ(V_i^k h_{i−1}^{<k}))

Column k is the target network plus, for every layer but the first, an adapter: V projects the
hidden activations h^{<k} of all earlier columns down to a few numbers, U brings them to the
layer. The paper's learned scale in front of V is part of V here. Activations of columns that
do not exist yet are zero, so all columns have the same shapes, with room for some to come. A
column is drawn for those before it alone: how much room there is decides none of its numbers.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from hypercrl.dynamics.architecture import Architecture
from hypercrl.dynamics.mlp import ACTIVATIONS, Layout, affine

Activations = tuple[Float[Array, "*N _all_columns"], ...]


class Column(NamedTuple):
    """The parameters of one column; with a leading axis, of all columns."""

    weights: Float[Array, "*T num_weights"]
    down: tuple[Float[Array, "*T _all_columns adapter"], ...]  # V_i, one a layer after the first
    up: tuple[Float[Array, "*T adapter _outputs"], ...]  # U_i


@dataclass(frozen=True)
class Progressive:
    """The shapes of the columns."""

    layout: Layout
    num_columns: int
    adapter: int
    activation: str = "relu"

    def init(self, index: Int[Array, ""] | int, *, key: PRNGKeyArray) -> Column:
        """One column. U starts at zero, so that a new column starts as a network of its own."""
        weight_key, *keys = jax.random.split(key, len(self.layout.shapes))
        shapes = self.layout.shapes[1:]
        return Column(
            self.layout.init(key=weight_key),
            tuple(self._init_down(k, index, n) for k, (n, _) in zip(keys, shapes, strict=True)),
            tuple(jnp.zeros((self.adapter, m)) for _, m in shapes),
        )

    def _init_down(self, key: PRNGKeyArray, index: Int[Array, ""] | int, width: int):
        """Xavier-uniform for as many inputs as there are in earlier columns."""
        fan_in = width * jnp.maximum(index, 1)
        shape = (self.num_columns * width, self.adapter)
        drawn = jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
        return drawn * jnp.sqrt(6.0 / (fan_in + self.adapter))

    def apply(
        self, column: Column, earlier: Activations, x: Float[Array, "*N inputs"]
    ) -> tuple[Float[Array, "*N raw"], tuple[Float[Array, "*N _hidden"], ...]]:
        """Outputs and hidden activations of one column."""
        activate, hidden = ACTIVATIONS[self.activation], []
        for i, (matrix, bias) in enumerate(self.layout.unflatten(column.weights)):
            y = affine(x, matrix, bias)
            if i > 0:
                y += activate(earlier[i - 1] @ column.down[i - 1]) @ column.up[i - 1]
            x = activate(y)
            hidden.append(x)
        return y, tuple(hidden[:-1])

    def earlier(
        self, columns: Column, task: Int[Array, ""], x: Float[Array, "*N inputs"]
    ) -> Activations:
        """Hidden activations of all columns before `task`, side by side."""
        widths, leading = self.layout.sizes[1:-1], x.shape[:-1]
        empty = tuple(jnp.zeros((*leading, self.num_columns * n)) for n in widths)

        def add_column(k, activations):
            column = jax.tree.map(lambda a: a[k], columns)
            _, hidden = self.apply(column, activations, x)
            return tuple(
                jax.lax.dynamic_update_slice_in_dim(a, h, k * n, axis=-1)
                for a, h, n in zip(activations, hidden, widths, strict=True)
            )

        return jax.lax.fori_loop(0, task, add_column, empty)


class Others(NamedTuple):
    """All columns, of which those before `task` are read."""

    columns: Column
    task: Int[Array, ""]


class ProgressiveNetwork(eqx.Module):
    """One column and the frozen ones before it: normalised inputs to raw outputs."""

    column: Column
    others: Others
    shapes: Progressive = eqx.field(static=True)

    def __call__(self, inputs: Float[Array, "*N inputs"]) -> Float[Array, "*N raw"]:
        earlier = self.shapes.earlier(*self.others, inputs)
        raw, _ = self.shapes.apply(self.column, earlier, inputs)
        return raw


@dataclass(frozen=True)
class Columns(Architecture):
    """A column a task, which reads the earlier ones through adapters."""

    adapter: int

    def init_networks(self, spec, num_tasks, *, key):
        shapes = self._shapes(spec, num_tasks)
        keys = jax.random.split(key, num_tasks)
        return (), jax.vmap(lambda i, k: shapes.init(i, key=k))(jnp.arange(num_tasks), keys)

    def others(self, params, task):
        return Others(params.tasks, task)

    def build(self, spec, own, others):
        shapes = self._shapes(spec, len(others.columns.weights))
        return ProgressiveNetwork(own.tasks, others, shapes)

    def _shapes(self, spec, num_columns: int) -> Progressive:
        layout, activation = self.network.layout(spec), self.network.activation
        return Progressive(layout, num_columns, self.adapter, activation)
