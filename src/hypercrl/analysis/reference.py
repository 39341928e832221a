"""What returns are measured with: the random policy, and `single` with matching settings.

The random policy depends on the task alone, so all runs of a comparison share one estimate.
r*_i is the mean of r[i, i] over the runs of `single` in which no setting that both have differs
from the entry's: an ablation of `single` (half the updates, another planner) would move the
ruler instead of what is measured. Ways of testing do not count as settings, nor do the step and
batch sizes, which are tuned for each method: the paper gives hypernetworks a tenth of the others'
step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from hypercrl.analysis.metrics import Yardstick, mean_of_defined, returns_matrix, task_scales
from hypercrl.experiment.run_folder import Run, differences

METHOD = "single"
"""The method that starts every task from scratch."""

_TESTS_ONLY = {
    f"schedule.{name}"
    for name in (
        "eval_episodes",
        "eval_every",
        "curve_episodes",
        "retest",
        "retest_episodes",
        "retest_tasks",
        "retest_all_every",
        "zero_shot",
    )
}
_METHODS_OWN = ("method", "learning_rate", "batch_size")

Settings = Mapping[str, Any]


def find_yardsticks(variants: Sequence[Sequence[Run]]) -> list[Yardstick]:
    """One for each group of runs that share their settings; the groups are compared."""
    runs = [run for members in variants for run in members]
    random, spread = _random_policy(runs)
    scale, plain_scale = task_scales(runs, np.nan_to_num(random)), task_scales(runs, 0.0)
    settings = [members[0].config.settings() for members in variants]
    singles = [k for k, members in enumerate(variants) if members[0].method == METHOD]
    others = [own for k, own in enumerate(settings) if k not in singles]
    # The one with most people's step and batch first: one ruler for all methods.
    distance = {k: sum(len(_shared(settings[k], own)) for own in others) for k in singles}
    found = []
    for k, own in enumerate(settings):
        # Nothing but itself would match an ablation of `single`, and that says 100 %.
        fitting = [s for s in singles if k not in singles and not clashes(own, settings[s])]
        closest = [s for s in fitting if distance[s] == min(distance[s] for s in fitting)]
        chosen = tuple(run for s in closest for run in variants[s])
        single = _own_returns(chosen, len(random))
        found.append(Yardstick(random, spread, single, scale, plain_scale, chosen))
    return found


def clashes(one: Settings, single: Settings) -> list[str]:
    """Settings that both have, that should agree and do not."""
    return [name for name in _shared(one, single) if not name.endswith(_METHODS_OWN)]


def explain_missing(run: Run, singles: Sequence[Run]) -> str:
    """What to run so that a run has a reference."""
    command = f"hypercrl train {run.suite} {METHOD} --preset {run.preset} --planner"
    text = f"run {command} {run.config.planner} with the same settings"
    different = [clashes(run.config.settings(), other.config.settings()) for other in singles]
    if not any(different):
        return text
    names = [name.rpartition(".")[2].replace("_", " ") for name in min(different, key=len)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{text} (those there are differ in {', '.join(names[:3])}{more})"


def _shared(one: Settings, other: Settings) -> list[str]:
    """Differing settings that both have and that decide what is learnt."""
    names = one.keys() & other.keys() - _TESTS_ONLY
    return differences({k: one[k] for k in names}, {k: other[k] for k in names})


def _random_policy(
    runs: Sequence[Run],
) -> tuple[Float[np.ndarray, "T"], Float[np.ndarray, "T"]]:
    """Mean and standard deviation over all episodes of random actions, per task."""
    pooled: list[list[float]] = [[] for _ in range(runs[0].num_tasks)]
    for run in runs:
        for record in run.random_policies:
            pooled[record.task] += [r for r in record.returns if math.isfinite(r)]
    means = [np.mean(returns) if returns else math.nan for returns in pooled]
    spreads = [np.std(returns, ddof=1) if len(returns) > 1 else 0.0 for returns in pooled]
    return np.array(means), np.array(spreads)


def _own_returns(runs: Sequence[Run], num_tasks: int) -> Float[np.ndarray, "T"]:
    own = [np.diagonal(returns_matrix(run)) for run in runs]
    if not own:
        return np.full(num_tasks, math.nan)
    return np.array([mean_of_defined(column) for column in np.stack(own).T])
