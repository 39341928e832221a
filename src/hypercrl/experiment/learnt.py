"""What a run has learnt, from its checkpoint: the state of its method."""

from typing import Any

from hypercrl.data.room import room_for
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.config import RunConfig
from hypercrl.types import Spec


def learner_state(
    config: RunConfig, spec: Spec, arrays: checkpoint.Arrays, *, within_task: bool = False
) -> Any:
    """The method's state, with as much room for tasks as it was saved with.

    `within_task` says that learning goes on in the middle of a task, for which a state of an
    older version may lack something.
    """
    room = arrays["memory/counts"].size if "memory/counts" in arrays else 0
    if not 0 < room <= room_for(config.num_tasks):
        raise UserError(
            f"The checkpoint has room for {room} tasks and the run for {config.num_tasks}; it "
            "belongs to another configuration."
        )
    saved = checkpoint.section(arrays, "learner")
    upgraded = config.learner.upgrade(saved)
    if within_task and upgraded is not saved:
        raise UserError(
            "The checkpoint was taken in the middle of a task by an older version, which kept "
            "other things; go on with that version, at least to the task's end."
        )
    template = config.learner.init(spec, room, key=streams.key(config.seed, "init"))
    return checkpoint.unflatten(template, upgraded)
