"""What the entries of a comparison are called.

A label is the method's name, and behind it the name that a sweep file gives, if any. Entries that
would share it are told apart by the settings that differ, one or two of them; a planner brings ten
settings of its own, but its name says it all. The table of settings has the rest.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypercrl.analysis import paper
from hypercrl.analysis.formatting import UNDEFINED
from hypercrl.experiment.run_folder import StoredConfig

Settings = Mapping[str, Any]

_MOST = 2  # settings in a label
_CANDIDATES = 12  # settings that are tried for a label, the most telling first


def choose_labels(configs: Sequence[StoredConfig]) -> list[str]:
    """One label each, all different."""
    bases = [_base(config) for config in configs]
    labels = list(bases)
    for base in dict.fromkeys(bases):
        alike = [k for k, other in enumerate(bases) if other == base]
        for k, extra in zip(
            alike, _tell_apart([configs[k].settings() for k in alike]), strict=True
        ):
            labels[k] = f"{base} ({extra})" if extra else base
    return make_unique(labels, " #")


def _base(config: StoredConfig) -> str:
    method = paper.METHOD_NAMES.get(config.method, config.method.replace("_", "-"))
    if not config.name or method.lower() in config.name.lower():
        return config.name or method
    return f"{method}: {config.name}"


def differing(settings: Sequence[Settings]) -> list[str]:
    """Names of the settings that are not the same in all, the most telling first."""
    names = sorted({name for own in settings for name in own})
    found = [n for n in names if any(own.get(n) != settings[0].get(n) for own in settings)]
    return sorted(found, key=lambda name: _vagueness(name, [own.get(name) for own in settings]))


def write_value(value: Any) -> str:
    if isinstance(value, list):
        return " × ".join(map(write_value, value))
    if value is None or isinstance(value, bool):
        return {None: UNDEFINED, True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def make_unique(names: Sequence[str], joint: str) -> list[str]:
    """The same names, numbered where one has been taken."""
    taken: dict[str, None] = {}
    for name in names:
        tries = itertools.chain([name], (f"{name}{joint}{n}" for n in itertools.count(2)))
        # A number must not make the name of somebody else, who may come later.
        free = (t for t in tries if t not in taken and (t == name or t not in names))
        taken[next(free)] = None
    return list(taken)


def _tell_apart(settings: Sequence[Settings]) -> list[str]:
    """For each the settings that set it apart from the others, written out."""
    names = differing(settings)
    if len(names) > _MOST:
        names = _fewest(names[:_CANDIDATES], settings)
    return [", ".join(_write(name, own) for name in names) for own in settings]


def _fewest(names: Sequence[str], settings: Sequence[Settings]) -> Sequence[str]:
    """The first one, else the first two that no two entries share; else the first two."""
    for size in range(1, _MOST + 1):
        for chosen in itertools.combinations(names, size):
            values = {tuple(str(own.get(name)) for name in chosen) for own in settings}
            if len(values) == len(settings):
                return chosen
    return names[:_MOST]


def _vagueness(name: str, values: Iterable[Any]) -> tuple:
    """Names of things say more than numbers, and top-level ones more than details."""
    values = list(values)
    missing = sum(value is None for value in values)
    words = all(value is None or isinstance(value, str) for value in values)
    return missing > 0, not words, name.count("."), name


def _write(name: str, own: Settings) -> str:
    """A word stands alone; a number needs its setting's name."""
    value, short = own.get(name), name.rpartition(".")[2].replace("_", " ")
    return value if isinstance(value, str) else f"{short} {write_value(value)}"
