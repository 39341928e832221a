"""Runs that may be compared, grouped: one `Comparison` a suite and preset, one `Entry` a method.

Runs of one method that differ in more than their seed (a planner, a hyperparameter) become
entries of their own, labelled with what differs, so that an ablation needs no special care.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics, paper
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import Run

_CHANGES_NOTHING = ("seed", "versions")
"""Entries of a configuration that do not make runs different experiments."""


@dataclass(frozen=True)
class Scores:
    """All metrics of one run."""

    returns: metrics.Matrix
    successes: metrics.Matrix
    one_step: metrics.Matrix
    h_step: metrics.Matrix
    retention: tuple[metrics.Ratio, ...]  # tasks 1 … T−1
    forward_transfer: tuple[metrics.Ratio, ...]  # tasks 2 … T
    worst_case: tuple[metrics.Ratio, ...]  # tasks 1 … T−1
    learning_area: tuple[metrics.Ratio, ...]
    average_performance: float
    forgetting: Float[np.ndarray, "T-1"]
    backward_transfer: Float[np.ndarray, "T-1"]
    zero_shot: Float[np.ndarray, "T-1"]
    seconds_per_session: Float[np.ndarray, "T"]
    bytes_kept: Float[np.ndarray, "T"]


@dataclass(frozen=True)
class Entry:
    """One method with one configuration and all its seeds."""

    method: str
    label: str
    runs: tuple[Run, ...]
    scores: tuple[Scores, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def is_reference(self) -> bool:
        return self.method == metrics.REFERENCE_METHOD

    @property
    def keeps_old_data(self) -> bool:
        return any(cost.memory_bytes > 0 for run in self.runs for cost in run.costs)

    def stack(self, read: Callable[[Scores], Any]) -> np.ndarray:
        """One quantity of every seed, stacked along a first axis."""
        return np.stack([np.asarray(read(scores), float) for scores in self.scores])


@dataclass(frozen=True)
class Comparison:
    """Entries on the same tasks under the same preset."""

    suite: str
    preset: str
    tasks: tuple[str, ...]
    entries: tuple[Entry, ...]
    reference: Float[np.ndarray, "T"]  # r*_i, NaN without runs of the reference method
    slug: str  # a name for files and links, unique in a report

    @property
    def title(self) -> str:
        return paper.SUITE_NAMES.get(self.suite, self.suite.replace("_", " ").capitalize())

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for entry in self.entries for run in entry.runs)


def compare(runs: Sequence[Run]) -> list[Comparison]:
    """Group runs into comparisons, in the paper's order of suites and methods."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.suite, run.preset, run.tasks), []).append(run)
    order = list(paper.SUITE_NAMES)
    keys = sorted(groups, key=lambda key: (_rank(key[0], order), *key))
    slugs = _unique_slugs([groups[key][0] for key in keys])
    return [_comparison(groups[key], slug) for key, slug in zip(keys, slugs, strict=True)]


def _unique_slugs(firsts: Sequence[Run]) -> list[str]:
    """Suite and preset; a number as well where other tasks share both."""
    plain = [re.sub(r"[^a-z0-9]+", "-", f"{r.suite} {r.preset}".lower()) for r in firsts]
    earlier = [plain[:k].count(slug) for k, slug in enumerate(plain)]
    return [f"{slug}-{n + 1}" if n else slug for slug, n in zip(plain, earlier, strict=True)]


def _comparison(runs: Sequence[Run], slug: str) -> Comparison:
    first = runs[0]
    scales = metrics.task_scales(runs)
    reference = metrics.reference_returns(runs, first.num_tasks)
    order = list(paper.METHOD_NAMES)
    entries = []
    for method in sorted({run.method for run in runs}, key=lambda m: (_rank(m, order), m)):
        for label, members in _variants(method, [r for r in runs if r.method == method]).items():
            members = sorted(members, key=lambda run: run.seed)
            _refuse_duplicates(members)
            scores = tuple(score(run, reference, scales) for run in members)
            entries.append(Entry(method, label, tuple(members), scores))
    return Comparison(first.suite, first.preset, first.tasks, tuple(entries), reference, slug)


def score(run: Run, reference: Float[np.ndarray, "T"], scales: Float[np.ndarray, "T"]) -> Scores:
    """Every metric of one run."""
    returns = metrics.returns_matrix(run)
    return Scores(
        returns=returns,
        successes=metrics.success_matrix(run),
        one_step=metrics.error_matrix(run, "one_step"),
        h_step=metrics.error_matrix(run, "h_step"),
        retention=tuple(metrics.retention(returns, scales)),
        forward_transfer=tuple(metrics.forward_transfer(returns, reference, scales)),
        worst_case=tuple(metrics.worst_case(run, scales)),
        learning_area=tuple(metrics.learning_area(run, reference, scales)),
        average_performance=metrics.average_performance(returns),
        forgetting=metrics.forgetting(returns),
        backward_transfer=metrics.backward_transfer(returns),
        zero_shot=metrics.zero_shot(run),
        seconds_per_session=metrics.seconds_per_session(run),
        bytes_kept=metrics.bytes_kept(run),
    )


def mean_over_seeds(stacked: Float[np.ndarray, "K *S"]) -> Float[np.ndarray, "*S"]:
    """The mean along the first axis over what is not NaN; NaN where nothing is."""
    counts = (~np.isnan(stacked)).sum(axis=0)
    sums = np.nansum(stacked, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The entries of a nested configuration that matter, under dotted names."""
    for key, value in config.items():
        if not prefix and key in _CHANGES_NOTHING:
            continue
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _variants(method: str, runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of one method by label; the label says what differs, if anything does."""
    flat = [run.config.settings() for run in runs]
    keys = sorted({key for config in flat for key in config})
    differing = [key for key in keys if len({str(config.get(key)) for config in flat}) > 1]
    name = paper.METHOD_NAMES.get(method, method.replace("_", "-"))
    variants: dict[str, list[Run]] = {}
    for run, config in zip(runs, flat, strict=True):
        extra = ", ".join(f"{_setting_name(key)} {config.get(key)}" for key in differing)
        variants.setdefault(f"{name} ({extra})" if extra else name, []).append(run)
    return variants


def _setting_name(key: str) -> str:
    """A dotted name without the part of the configuration that it stands in."""
    return key.partition(".")[2] or key


def _refuse_duplicates(runs: Sequence[Run]) -> None:
    for one, other in itertools.pairwise(runs):
        if one.seed == other.seed:
            raise UserError(
                f"'{one.path}' and '{other.path}' are the same experiment with the same seed "
                f"{one.seed}; name only one of them."
            )


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)
