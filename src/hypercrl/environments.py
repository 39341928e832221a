"""Every built-in suite as a Gymnasium environment.

`gymnasium.make("hypercrl/Pusher-v0", task=2)` gives the third task of the suite `pusher`. The
names come from the files of `hypercrl.suites`, so a new suite is registered by being there,
and neither JAX nor MuJoCo is imported before an environment is made.

Importing hypercrl is enough, before or after Gymnasium, and `"hypercrl:hypercrl/Pusher-v0"`
imports it by itself. Gymnasium looked for environments of installed packages before its version
1.0, and no longer does.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING

from hypercrl.errors import UserError
from hypercrl.registry import suites

if TYPE_CHECKING:
    import gymnasium


def register_with_gymnasium() -> None:
    """Register the environments as soon as Gymnasium is there, without importing it for that."""
    if "gymnasium" in sys.modules:
        register_environments()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


def register_environments() -> None:
    """Tell Gymnasium the suites' names; doing it again changes nothing."""
    import gymnasium

    for suite in suites.builtin_modules:
        name = environment_id(suite)
        if name not in gymnasium.registry:
            gymnasium.register(name, f"{__name__}:make_environment", kwargs={"suite": suite})


class _AfterGymnasium(importlib.abc.MetaPathFinder):
    """Waits for the import of Gymnasium, lets it happen as always and then registers."""

    def find_spec(self, fullname, path, target=None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module) -> None:
                execute(module)
                register_environments()

            spec.loader.exec_module = execute_and_register
        return spec


def environment_id(suite: str) -> str:
    """`half_cheetah` is called `hypercrl/HalfCheetah-v0`."""
    return f"hypercrl/{''.join(word.capitalize() for word in suite.split('_'))}-v0"


def make_environment(
    suite: str, task: int = 0, num_tasks: int | None = None, render_mode: str | None = None
) -> "gymnasium.Env":
    """One task of a suite; `num_tasks` reaches into the longer sequences."""
    factory = suites.get(suite)
    tasks = (factory() if num_tasks is None else factory(num_tasks)).tasks
    if not 0 <= task < len(tasks):
        raise UserError(
            f"The suite '{suite}' has the tasks 0 to {len(tasks) - 1} and no task {task}; "
            "num_tasks makes the sequence longer."
        )
    return tasks[task].make(render_mode)
