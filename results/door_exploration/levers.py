"""Two levers of the door suite's longer sequence, its 8th and 23rd door, as a suite of their own.

    hypercrl train levers single --plugin results/door_exploration/levers.py --seed 402 \\
        --learner.network.hidden 256 256 --eval-episodes 20 --no-retest --no-zero-shot
"""

from hypercrl.registry import suites
from hypercrl.suites.door import door
from hypercrl.types import Suite


@suites.register("levers")
def levers(num_tasks: int = 2) -> Suite:
    whole = door(25)
    tasks = (whole.tasks[7], whole.tasks[22])
    return Suite("levers", whole.spec, tasks[:num_tasks], whole.presets, success=whole.success)
