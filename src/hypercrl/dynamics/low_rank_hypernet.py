"""A base that all tasks share, and for each task a difference of low rank.

    θ(e) = θ₀ + Δ(e),   ΔW_l = U_l diag(s_l(e)) V_l,   Δb_l = b_l(e)

for every layer l of the target, with s and b from a small MLP on the embedding. What tasks have
in common goes into θ₀, U and V, which the regulariser holds together; a new embedding starts
near what is known already. With `base="frozen"` θ₀ is a random network that never changes: only
its seed has to be kept, so that the hypernetwork can be smaller than the network it generates.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hypercrl.checks import at_least, one_of
from hypercrl.dynamics.hypernet import (
    NUM_PROBE_EMBEDDINGS,
    Hypernet,
    apply_hidden,
    init_hidden,
)
from hypercrl.dynamics.mlp import Layout, affine, xavier_uniform
from hypercrl.registry import hypernets

BASE_SEED = 0  # of the frozen base, the same for all runs
FIRST_DIFFERENCE = 0.5  # spread of the first ΔW, relative to the base's


@hypernets.register("low_rank")
@dataclass(frozen=True)
class LowRankHypernet(Hypernet):
    """About `rank` (n + m) numbers for a layer of n × m, and the base if it is trained."""

    hidden: tuple[int, ...] = (32,)
    """Hidden layers' sizes, between the embedding and the factors of rank."""
    activation: str = "tanh"
    """`elu`, `relu`, `tanh` or `swish`."""
    rank: int = 32
    """Of the difference in every layer, at most the smaller side of its matrix."""
    base: Literal["trained", "frozen"] = "trained"
    """Whether the shared base is learnt, or stays as a seed has drawn it."""

    def __post_init__(self):
        super().__post_init__()
        at_least(self, 1, "rank")
        one_of(self, ("trained", "frozen"), "base")

    def init(self, layout, *, key):
        hidden_key, output_key, left_key, right_key, base_key, probe_key = jax.random.split(key, 6)
        hidden = init_hidden((self.embedding_dim, *self.hidden), key=hidden_key)
        ranks = self._ranks(layout)
        width = sum(ranks) + sum(m for _, m in layout.shapes)
        matrix = xavier_uniform(output_key, self.hidden[-1], width)
        # Generated biases start near zero, as a fresh network's do.
        matrix = matrix.at[:, sum(ranks) :].multiply(0.1)
        embeddings = jax.random.normal(probe_key, (NUM_PROBE_EMBEDDINGS, self.embedding_dim))
        energy = ((apply_hidden(self.activation, hidden, embeddings) @ matrix) ** 2).mean(0)
        scale = jnp.sqrt(energy[: sum(ranks)].mean())
        keys = zip(
            jax.random.split(left_key, len(ranks)),
            jax.random.split(right_key, len(ranks)),
            strict=True,
        )
        layers = []
        for (n, m), rank, (left, right) in zip(layout.shapes, ranks, keys, strict=True):
            spread = FIRST_DIFFERENCE * math.sqrt(2.0 / (n + m)) / (math.sqrt(rank) * scale)
            layers.append(
                {
                    "left": jax.random.normal(left, (n, rank)),
                    "right": spread * jax.random.normal(right, (rank, m)),
                }
            )
        params: dict[str, Any] = {
            "hidden": hidden,
            "output": {"matrix": matrix, "bias": jnp.zeros(width)},
            "layers": layers,
        }
        if self.base == "trained":
            params["base"] = layout.init(key=base_key)
        return params

    def generate(self, layout, params, embeddings):
        hidden = apply_hidden(self.activation, params["hidden"], embeddings)
        outputs = affine(hidden, params["output"]["matrix"], params["output"]["bias"])
        ranks, widths = self._ranks(layout), [m for _, m in layout.shapes]
        scales = jnp.split(outputs, np.cumsum([*ranks, *widths])[:-1], axis=1)
        scales, biases = scales[: len(ranks)], scales[len(ranks) :]
        parts = []
        for layer, scale, bias in zip(params["layers"], scales, biases, strict=True):
            product = jax.vmap(lambda s, layer=layer: (layer["left"] * s[None]) @ layer["right"])
            parts += [product(scale).reshape(len(embeddings), -1), bias]
        base = params["base"] if self.base == "trained" else _frozen_base(layout)
        difference = jnp.concatenate(parts, axis=1)
        return jnp.broadcast_to(base, difference.shape) + difference

    def pull_back(self, layout, params, embeddings):
        return jax.vjp(functools.partial(self.generate, layout), params, embeddings)

    def _ranks(self, layout: Layout) -> list[int]:
        return [min(self.rank, n, m) for n, m in layout.shapes]


@functools.cache
def _frozen_base(layout: Layout) -> Float[np.ndarray, "W"]:
    """θ₀ as a constant of the compiled program: neither stored nor trained."""
    with jax.ensure_compile_time_eval():
        return np.asarray(layout.init(key=jax.random.key(BASE_SEED)), np.float32)
