"""All randomness of a run, derived from (seed, purpose, counters) and from nothing else.

No generator is carried along, so a resumed run draws exactly what an uninterrupted one would
have drawn, and adding an evaluation never changes the training.
"""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray


def _sequence(seed: int, purpose: str, counters: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), len(counters), *counters])


def key(seed: int, purpose: str, *counters: int) -> PRNGKeyArray:
    """A JAX key."""
    words = _sequence(seed, purpose, counters).generate_state(2, np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def generator(seed: int, purpose: str, *counters: int) -> np.random.Generator:
    """A NumPy generator."""
    return np.random.default_rng(_sequence(seed, purpose, counters))


def integer(seed: int, purpose: str, *counters: int) -> int:
    """A seed for an environment's reset."""
    return int(_sequence(seed, purpose, counters).generate_state(1, np.uint32)[0] >> 1)
