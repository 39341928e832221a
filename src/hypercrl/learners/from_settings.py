"""A learner with the settings of a suite's preset."""

import dataclasses
from typing import Any

from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network
from hypercrl.learning.training import Training
from hypercrl.types import Settings


def from_settings(cls: Any, settings: Settings) -> Any:
    """Every field of the learner that the settings say something about."""
    names = {field.name for field in dataclasses.fields(cls)}
    rate = "hypernet_learning_rate" if "hypernet" in names else "baseline_learning_rate"
    said = {
        "network": Network(
            settings.hidden, settings.activation, settings.head, settings.scale_targets
        ),
        "training": Training(settings.batch_size, anneal=settings.anneal),
        "hypernet": _hypernet(settings),
        "learning_rate": getattr(settings, rate),
        "beta": settings.beta,
        "lookahead": settings.lookahead,
    }
    return cls(**{name: value for name, value in said.items() if name in names})


def _hypernet(settings: Settings) -> Hypernet:
    shared: dict[str, Any] = {
        "hidden": settings.hypernet_hidden,
        "activation": settings.hypernet_activation,
    }
    if settings.chunk_size == 0:
        return FullHypernet(**shared)
    return ChunkedHypernet(
        chunk_size=settings.chunk_size, chunk_embedding_dim=settings.chunk_embedding_dim, **shared
    )
