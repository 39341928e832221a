"""What a long life is read by: all tasks seen, the first one and the newest, after each task."""

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.metrics import Matrix

LONG = 8  # tasks from which on a sequence is a life; a shorter one is read task by task


def is_life(comparison: Comparison) -> bool:
    return len(comparison.tasks) >= LONG


def life_matrices(comparison: Comparison) -> tuple[list[list[Matrix]], bool]:
    """The returns of every entry's runs, and whether they could be normalised."""
    normalised = [
        [metrics.normalise_matrix(s.returns, entry.yardstick) for s in entry.scores]
        for entry in comparison.entries
    ]
    if any(np.isfinite(matrix).any() for found in normalised for matrix in found):
        return normalised, True
    return [[scores.returns for scores in entry.scores] for entry in comparison.entries], False


def all_seen(matrix: Matrix) -> Float[np.ndarray, "T"]:
    """The mean over the tasks seen, after each task; NaN where one was not tested."""
    return np.array([matrix[: after + 1, after].mean() for after in range(len(matrix))])
