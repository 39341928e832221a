"""Every built-in suite as a Gymnasium environment.

`gymnasium.make("hypercrl/Pusher-v0", task=2)` gives the third task of the suite `pusher`. The
names come from the files of `hypercrl.suites`, so a new suite is registered by being there,
and neither JAX nor MuJoCo is imported before an environment is made.
"""

import gymnasium

from hypercrl.errors import UserError
from hypercrl.registry import suites


def register_environments() -> None:
    """Tell Gymnasium the suites' names; doing it again changes nothing."""
    for suite in suites.builtin_modules:
        name = environment_id(suite)
        if name not in gymnasium.registry:
            gymnasium.register(name, f"{__name__}:make_environment", kwargs={"suite": suite})


def environment_id(suite: str) -> str:
    """`half_cheetah` is called `hypercrl/HalfCheetah-v0`."""
    return f"hypercrl/{''.join(word.capitalize() for word in suite.split('_'))}-v0"


def make_environment(
    suite: str, task: int = 0, num_tasks: int | None = None, render_mode: str | None = None
) -> gymnasium.Env:
    """One task of a suite; `num_tasks` reaches into the longer sequences."""
    factory = suites.get(suite)
    tasks = (factory() if num_tasks is None else factory(num_tasks)).tasks
    if not 0 <= task < len(tasks):
        raise UserError(
            f"The suite '{suite}' has the tasks 0 to {len(tasks) - 1} and no task {task}; "
            "num_tasks makes the sequence longer."
        )
    return tasks[task].make(render_mode)
