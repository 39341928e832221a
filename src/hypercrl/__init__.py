"""Continual model-based reinforcement learning with hypernetworks.

    import hypercrl

    run = hypercrl.train("cartpole", "hypercrl", seed=0)
    action = hypercrl.load(run).act(observation, task=0)

Names are imported when they are first used, so that `import hypercrl` and `hypercrl --help`
load neither JAX nor MuJoCo.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hypercrl.environments import register_environments
from hypercrl.registry import learners, planners, suites

if TYPE_CHECKING:
    from hypercrl.custom import append_tasks, register_suite, suite_from_envs
    from hypercrl.experiment.controller import Controller, load
    from hypercrl.training import extend, train

__all__ = [
    "Controller",
    "append_tasks",
    "extend",
    "learners",
    "load",
    "planners",
    "register_suite",
    "suite_from_envs",
    "suites",
    "train",
]

_HOMES = {
    "Controller": "hypercrl.experiment.controller",
    "append_tasks": "hypercrl.custom",
    "extend": "hypercrl.training",
    "load": "hypercrl.experiment.controller",
    "register_suite": "hypercrl.custom",
    "suite_from_envs": "hypercrl.custom",
    "train": "hypercrl.training",
}


register_environments()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hypercrl' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
