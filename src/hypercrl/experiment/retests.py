"""Which of the tasks seen are tested again, so that tests need not grow with their number.

Testing all of them after each task takes a time that grows with the square of the number of
tasks. A schedule may therefore ask for a few: the first, which has had the longest time to be
forgotten, and others that are drawn by the run's seed, anew after every task. At milestones and
at the run's end all are tested.
"""

from hypercrl.experiment import streams
from hypercrl.experiment.config import RunConfig
from hypercrl.presets import Schedule


def choose_retested(schedule: Schedule, seed: int, task: int) -> list[int]:
    """The older tasks to test when `task` is the newest, in their order."""
    if not schedule.retest:
        return []
    wanted = schedule.retest_tasks or task
    if wanted >= task:
        return list(range(task))
    rng = streams.generator(seed, "retest", task)
    others = rng.choice(range(1, task), wanted - 1, replace=False)
    return [0, *sorted(others.tolist())]


def tasks_to_test(config: RunConfig, task: int) -> list[int]:
    """The tasks to test at the end of `task`.

    Those that only a milestone asks for come last: whoever has tested a number of them, and is
    then extended, has tested the first of the shorter list too.
    """
    schedule, every = config.schedule, config.schedule.retest_all_every
    chosen = [*choose_retested(schedule, config.seed, task), task]
    is_milestone = bool(every) and (task + 1) % every == 0
    if not schedule.retest or not (is_milestone or task == config.num_tasks - 1):
        return chosen
    return chosen + [other for other in range(task) if other not in chosen]
