"""What a long life is read by: all tasks seen, the first one and the newest, after each task.

All returns of a life are measured with one ruler, the mean gain of `single` over all its tasks:

    n[i, j] = (r[i, j] − random_i) / mean_k (r*_k − random_k)

With a hundred tasks there are few steps and tests for each, and now and then `single` learns
nothing; task by task, the ruler would shrink to noise there, and gains would grow without bound.
"""

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics
from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.metrics import Matrix, Yardstick

LONG = 8  # tasks from which on a sequence is a life; a shorter one is read task by task
NORMALISED = "Gain over random actions, in per cent of the single-task reference's mean gain"


def is_life(comparison: Comparison) -> bool:
    return len(comparison.tasks) >= LONG


def life_matrices(comparison: Comparison) -> tuple[list[list[Matrix]], bool]:
    """The returns of every entry's runs, and whether they could be normalised."""
    entries = comparison.entries
    normalised = [[_normalise(s.returns, e.yardstick) for s in e.scores] for e in entries]
    if any(np.isfinite(matrix).any() for found in normalised for matrix in found):
        return normalised, True
    return [[scores.returns for scores in entry.scores] for entry in entries], False


def _normalise(returns: Matrix, yard: Yardstick) -> Matrix:
    ruler = metrics.mean_of_defined(yard.single - yard.random)
    return (returns - yard.random[:, None]) / (ruler if ruler > 0 else np.nan)


def all_seen(matrix: Matrix) -> Float[np.ndarray, "T"]:
    """The mean over the tasks seen, after each task; NaN where one was not tested."""
    return np.array([matrix[: after + 1, after].mean() for after in range(len(matrix))])


def smooth(curve: Float[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    """Running means over a twentieth of the life to either side; holes stay holes."""
    reach = len(curve) // 20
    found = [
        metrics.mean_of_defined(curve[max(k - reach, 0) : k + reach + 1]) for k in range(len(curve))
    ]
    return np.where(np.isfinite(curve), found, np.nan)
