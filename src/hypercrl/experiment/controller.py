"""A learned controller: the last checkpoint of a run, ready to act.

controller = hypercrl.load("runs/pusher-hypercrl-s0")
action = controller.act(observation, task=0)
"""

from pathlib import Path

import numpy as np

from hypercrl.errors import UserError, boundary
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.learnt import learner_state
from hypercrl.experiment.recorder import Position
from hypercrl.experiment.run_folder import CHECKPOINT, read_config
from hypercrl.experiment.values import Values
from hypercrl.types import Model, Value


class Controller:
    """Plans with the models that a run has learnt."""

    def __init__(self, config: RunConfig, folder: Path):
        self.config = config
        self.suite = config.build_suite()
        found = checkpoint.load_latest(folder / CHECKPOINT)
        if found is None:
            raise UserError(f"{folder} has no checkpoint yet; train it first.")
        arrays, info = found
        # A task counts as learnt once it has had a training session.
        at = Position(**info["position"])
        self.num_learnt = at.task + (1 if at.sessions > 0 else 0)
        self._state = learner_state(config, self.suite.spec, arrays)
        self._values = Values(config.critic, self.suite.spec)
        self._values.set_state(checkpoint.section(arrays, "values"))
        self._models: dict[int, Model] = {}
        self._task: int | None = None
        self._plan_state = None
        self._num_actions = 0

    def check_learnt(self, number: int) -> None:
        """Complain about a task, counted from 1 as people do, that has not been learnt."""
        if not 1 <= number <= self.num_learnt:
            raise UserError(
                f"This run has learnt the tasks 1 to {self.num_learnt} and not task {number}."
                if self.num_learnt
                else "This run has not learnt any task yet."
            )

    def reset(self) -> None:
        """Forget the plan under way, as at the start of an episode."""
        self._task = None

    def model(self, task: int) -> Model:
        """The dynamics model of one task."""
        if not 0 <= task < self.num_learnt:
            raise UserError(
                f"Task {task} has not been learnt; this run knows tasks 0 to {self.num_learnt - 1}."
            )
        if task not in self._models:
            self._models[task] = self.config.learner.predict(self._state, task)
        return self._models[task]

    def value(self, task: int) -> Value | None:
        """What lies behind the horizon in one task, if the run has learnt it."""
        return self._values.of(task)

    def act(self, observation: np.ndarray, task: int) -> np.ndarray:
        """The next action [A] for an observation [S], within the action bounds."""
        spec = self.suite.spec
        observation = np.asarray(observation, np.float32)
        if observation.shape != (spec.state_dim,) or not np.all(np.isfinite(observation)):
            raise UserError(f"An observation must be {spec.state_dim} finite numbers.")
        model, value = self.model(task), self.value(task)
        if task != self._task:
            self._task, self._plan_state = task, self.config.planner.init(spec)
        plan = self.config.planner.plan(
            self._plan_state,
            model,
            self.suite.tasks[task].reward,
            observation,  # pyright: ignore[reportArgumentType]
            key=streams.key(self.config.seed, "act", self._num_actions),
            **({} if value is None else {"value": value}),
        )
        self._plan_state = plan.state
        self._num_actions += 1
        low, high = np.asarray([spec.action_low, spec.action_high], np.float32)
        return np.clip(np.asarray(plan.action), low, high)


@boundary("The run's controller")
def load(run: str | Path) -> Controller:
    """The controller of a run's folder."""
    folder = Path(run)
    return Controller(RunConfig.from_stored(read_config(folder)), folder)
