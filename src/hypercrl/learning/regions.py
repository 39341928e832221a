"""Where a task's inputs lie: the centres of k-means (Lloyd 1982), and the spread around them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

ROUNDS = 30  # of moving the centres; after these they hardly move any more
FEWEST = 10  # inputs that a centre is the mean of: nothing that is kept may be an input itself


def find_regions(
    inputs: Float[Array, "C inputs"], used: Bool[Array, "C"], count: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, "count inputs"], Float[Array, "inputs inputs"]]:
    """Centres, and the covariance of the inputs around the nearest of them.

    A region of too few inputs is given up for the mean of all of them.
    """
    share = used.astype(inputs.dtype)

    def move(_, centres):
        members, means = _means(inputs, share, centres)
        return jnp.where(members[:, None] > 0, means, centres)

    first = inputs[jax.random.choice(key, len(inputs), (count,), p=share)]
    members, centres = _means(inputs, share, jax.lax.fori_loop(0, ROUNDS, move, first))
    middle = share @ inputs / jnp.maximum(share.sum(), 1)
    centres = jnp.where(members[:, None] >= FEWEST, centres, middle[None])
    rest = (inputs - centres[_nearest(inputs, centres)]) * share[:, None]
    return centres, rest.T @ rest / jnp.maximum(share.sum(), 1)


def _means(inputs, share, centres):
    """How many inputs are nearest to each centre, and their mean."""
    belongs = jax.nn.one_hot(_nearest(inputs, centres), len(centres)) * share[:, None]
    members = belongs.sum(0)
    return members, belongs.T @ inputs / jnp.maximum(members, 1)[:, None]


def _nearest(
    inputs: Float[Array, "C inputs"], centres: Float[Array, "count inputs"]
) -> Int[Array, "C"]:
    # ‖x − μ‖² without the part that is the same for all centres
    return jnp.argmin((centres**2).sum(-1)[None] - 2 * inputs @ centres.T, axis=-1)
