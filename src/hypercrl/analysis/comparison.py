"""Runs that may be compared, grouped: one `Comparison` a suite and preset, one `Entry` a method.

Runs of one method that differ in more than their seed (a planner, a hyperparameter) become
entries of their own, labelled with what differs, so that an ablation needs no special care.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from hypercrl.analysis import metrics, paper, reference
from hypercrl.analysis.formatting import out_of
from hypercrl.analysis.labels import choose_labels, make_unique
from hypercrl.analysis.metrics import Scores, Yardstick
from hypercrl.errors import UserError
from hypercrl.experiment.run_folder import Run

LONGEST_SLUG = 100  # letters; file names end after 255 bytes

_BEFORE_CODE = "0.1.0"
"""The version whose runs do not name the code that made them."""


@dataclass(frozen=True)
class Entry:
    """One method with one configuration and all its seeds."""

    method: str
    label: str
    runs: tuple[Run, ...]
    yardstick: Yardstick
    scores: tuple[Scores, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def is_reference(self) -> bool:
        return self.method == reference.METHOD

    @property
    def keeps_old_data(self) -> bool:
        return any(cost.memory_bytes > 0 for run in self.runs for cost in run.costs)

    @property
    def has_common_probe(self) -> bool:
        """Whether its model errors are on the transitions that all methods are measured on."""
        return all(run.config.code for run in self.runs)

    @property
    def normalised(self) -> float:
        """The normalised return at the end, mean over tasks and seeds."""
        return metrics.mean_of_defined(self.stack(lambda s: s.normalised_performance))

    @property
    def learnt(self) -> str:
        """How many tasks were learnt, mean over the seeds that came so far."""
        own = mean_over_seeds(self.stack(lambda s: np.diagonal(s.returns)))
        learnt = mean_over_seeds(self.stack(lambda s: s.learnt))
        known = np.isfinite(own).any() and not np.isnan(learnt[np.isfinite(own)]).any()
        return out_of(float(np.nansum(learnt)) if known else math.nan, len(learnt))

    @property
    def final_return(self) -> float:
        return metrics.mean_of_defined(self.stack(lambda s: s.average_performance))

    def stack(self, read: Callable[[Scores], Any]) -> np.ndarray:
        """One quantity of every seed, stacked along a first axis."""
        return np.stack([np.asarray(read(scores), float) for scores in self.scores])

    def made_by(self, current: str) -> str:
        """Which code made its runs; `current` is the fingerprint of this installation's."""
        names = dict.fromkeys(name for run in self.runs for name in _code_names(run, current))
        return next(iter(names)) if len(names) == 1 else f"mixed: {', '.join(names)}"


@dataclass(frozen=True)
class Comparison:
    """Entries on the same tasks under the same preset, the best first and the reference last."""

    suite: str
    preset: str
    tasks: tuple[str, ...]
    entries: tuple[Entry, ...]
    slug: str  # a name for files and links, unique in a report
    current: str = ""  # fingerprint of the code that reads the runs; empty if nobody said

    @property
    def title(self) -> str:
        return paper.SUITE_NAMES.get(self.suite, self.suite.replace("_", " ").capitalize())

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for entry in self.entries for run in entry.runs)

    @property
    def competitors(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.is_reference)

    @property
    def ranks_normalised(self) -> bool:
        """Whether entries are ranked by normalised return; else by plain return at the end."""
        return can_rank_normalised(self.competitors)


def compare(runs: Sequence[Run], current: str = "") -> list[Comparison]:
    """Group runs into comparisons, in the paper's order of suites."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.suite, run.preset, run.tasks), []).append(run)
    order = list(paper.SUITE_NAMES)
    keys = sorted(groups, key=lambda key: (_rank(key[0], order), *key))
    slugs = (re.sub(r"[^a-z0-9]+", "-", f"{key[0]} {key[1]}".lower()).strip("-") for key in keys)
    plain = [slug[:LONGEST_SLUG] or "suite" for slug in slugs]
    found = []
    for key, slug in zip(keys, make_unique(plain, "-"), strict=True):
        suite, preset, tasks = key
        found.append(Comparison(suite, preset, tasks, _entries(groups[key]), slug, current))
    return found


def _entries(runs: Sequence[Run]) -> tuple[Entry, ...]:
    """One a configuration, in order of merit."""
    groups: dict[str, list[Run]] = {}
    order = list(paper.METHOD_NAMES)
    for run in sorted(runs, key=lambda run: (_rank(run.method, order), run.method)):
        groups.setdefault(json.dumps(run.config.settings(), sort_keys=True), []).append(run)
    variants = [tuple(sorted(members, key=lambda run: run.seed)) for members in groups.values()]
    for members in variants:
        _refuse_duplicates(members)
    labels = choose_labels([members[0].config for members in variants])
    entries = [
        Entry(
            members[0].method, label, members, yard, tuple(metrics.score(r, yard) for r in members)
        )
        for members, label, yard in zip(
            variants, labels, reference.find_yardsticks(variants), strict=True
        )
    ]
    return _in_order_of_merit(entries)


def can_rank_normalised(entries: Sequence[Entry]) -> bool:
    """Whether all that have come to an end are normalised with one and the same reference.

    Half of what a strong planner reaches may be more than all that a weak one does.
    """
    finished = [entry for entry in entries if math.isfinite(entry.final_return)]
    rulers = {tuple(run.path for run in entry.yardstick.runs) for entry in finished}
    return len(rulers) == 1 and all(math.isfinite(entry.normalised) for entry in finished)


def _in_order_of_merit(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    normalised = can_rank_normalised([entry for entry in entries if not entry.is_reference])

    def key(entry: Entry) -> tuple[bool, bool, float]:
        value = entry.normalised if normalised else entry.final_return
        return entry.is_reference, math.isnan(value), -np.nan_to_num(value)

    return tuple(sorted(entries, key=key))


def mean_over_seeds(stacked: Float[np.ndarray, "K *S"]) -> Float[np.ndarray, "*S"]:
    """The mean along the first axis over what is not NaN; NaN where nothing is."""
    counts = (~np.isnan(stacked)).sum(axis=0)
    sums = np.nansum(stacked, axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)


def _code_names(run: Run, current: str) -> list[str]:
    if not run.config.code:
        return [f"older: version {_BEFORE_CODE}"]
    return [
        "current"
        if code.fingerprint == current
        else f"{'older: ' if current else ''}version {code.version} ({code.fingerprint[:8]})"
        for code in run.config.code
    ]


def _refuse_duplicates(runs: Sequence[Run]) -> None:
    for one, other in itertools.pairwise(runs):
        if one.seed == other.seed:
            raise UserError(
                f"'{one.path}' and '{other.path}' are the same experiment with the same seed "
                f"{one.seed}; name only one of them."
            )


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)
