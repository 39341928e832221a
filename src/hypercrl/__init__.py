"""Continual model-based reinforcement learning with hypernetworks.

    import hypercrl

    run = hypercrl.train("cartpole", "hypercrl", seed=0)
    action = hypercrl.load(run).act(observation, task=0)

Names are imported when they are first used, so that `import hypercrl` and `hypercrl --help`
load neither JAX nor MuJoCo nor Gymnasium.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hypercrl import registry
from hypercrl.environments import register_with_gymnasium
from hypercrl.registry import learners, planners, suites

if TYPE_CHECKING:
    from hypercrl.custom import append_tasks, register_suite, suite_from_envs
    from hypercrl.experiment.controller import Controller, load
    from hypercrl.registry import load_plugin
    from hypercrl.results import compare, read
    from hypercrl.training import extend, train

    __version__: str

__all__ = [
    "Controller",
    "__version__",
    "append_tasks",
    "compare",
    "extend",
    "learners",
    "load",
    "load_plugin",
    "planners",
    "read",
    "register_suite",
    "suite_from_envs",
    "suites",
    "train",
]

_HOMES = {
    "Controller": "hypercrl.experiment.controller",
    "append_tasks": "hypercrl.custom",
    "compare": "hypercrl.results",
    "extend": "hypercrl.training",
    "load": "hypercrl.experiment.controller",
    "load_plugin": "hypercrl.registry",
    "read": "hypercrl.results",
    "register_suite": "hypercrl.custom",
    "suite_from_envs": "hypercrl.custom",
    "train": "hypercrl.training",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("hypercrl")
    if name not in _HOMES:
        raise AttributeError(f"module 'hypercrl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Two registries have the names of packages that hold their variants.

    Python sets `hypercrl.learners` to the package when that is first imported, as it does with
    any; these attributes stay what they are.
    """

    @property
    def learners(self) -> registry.Registry:
        return registry.learners

    @property
    def suites(self) -> registry.Registry:
        return registry.suites

    @learners.setter
    def learners(self, package: ModuleType) -> None:
        pass

    @suites.setter
    def suites(self, package: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
register_with_gymnasium()
