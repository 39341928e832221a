"""A learned controller: what a run has learnt, ready to act, in a simulation or on a robot.

    controller = hypercrl.load("runs/pusher-hypercrl-s0", budget=0.08)
    controller.warm_up()
    action = controller.act(observation, task=0)

Tasks are counted from 0, as everywhere in code, or called by their names. `docs/robot.md` is the
guide to it.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hypercrl.dynamics.model import DynamicsModel
from hypercrl.errors import UserError, boundary
from hypercrl.experiment import checkpoint, shipped, streams
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.learnt import learner_state
from hypercrl.experiment.pacing import Pacing
from hypercrl.experiment.recorder import Position
from hypercrl.experiment.run_folder import CHECKPOINT, read_config
from hypercrl.experiment.values import Values
from hypercrl.types import Model, Plan, Planner, Value

WARM_UP_PLANS = 3  # of each variant: the first compiles, the others tell how long one takes


@dataclass(frozen=True)
class Learnt:
    """What a run knows after some tasks: all that acting needs of it."""

    state: Any  # the learner's
    values: Values
    num_tasks: int


class Uncertainty(NamedTuple):
    """What a model knows of how well it knows."""

    std: Float[np.ndarray, "*B outputs"] | None
    """The spread of the predicted change, in its units, which only a Gaussian head knows. Models
    with a point head, the default of the presets, know nothing of it: None."""
    distance: Float[np.ndarray, "*B"]
    """How far the input that is farthest from the task's training data is away from their mean,
    in their standard deviations. Beyond 4 or 5 a prediction is a guess."""


class Controller:
    """Plans with the models that a run has learnt."""

    def __init__(
        self,
        config: RunConfig,
        learnt: Learnt,
        *,
        budget: float | None = None,
        background: bool = False,
    ):
        """With a `budget`, in seconds, a plan has fewer rounds rather than being late.

        In the `background`, the next action is planned while the last one is executed, from the
        state that the model expects: `act` then answers at once, except at the first step.
        """
        self.config = config
        self.suite = config.build_suite()
        self.num_learnt = learnt.num_tasks
        self.info: Mapping[str, Any] = {}
        """Of the last action: what its plan expects, how many rounds and seconds it took."""
        self._learnt = learnt
        self._models: dict[int, Model] = {}
        self._pacing = Pacing(config.planner, budget)
        self._thread = ThreadPoolExecutor(1, "planning") if background else None
        self._ahead: Future[tuple[Plan, dict[str, Any]]] | None = None
        self._situation: tuple[int, tuple[int, ...]] | None = None  # task, and shape of the states
        self._plan_state: Any = None
        self._seed, self._num_plans = config.seed, 0
        spec = self.suite.spec
        self._low, self._high = np.asarray([spec.action_low, spec.action_high], np.float32)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks learnt, in their order."""
        return tuple(task.name for task in self.suite.tasks[: self.num_learnt])

    def index(self, task: int | str) -> int:
        """The place of a task that is given by its number, from 0, or by its name."""
        if isinstance(task, str):
            if task not in self.tasks:
                names = ", ".join(f"'{name}'" for name in self.tasks) or "none"
                raise UserError(
                    f"No task called '{task}' has been learnt; this run knows: {names}."
                )
            return self.tasks.index(task)
        if not 0 <= task < self.num_learnt:
            raise UserError(
                f"Task {task} has not been learnt; this run knows tasks 0 to {self.num_learnt - 1}."
            )
        return int(task)

    def find(self, text: str) -> int:
        """The place of a task that a person has typed: its name, or its number counted from 1."""
        if text in self.tasks or not text.lstrip("-").isdigit():
            return self.index(text)
        self.check_learnt(int(text))
        return int(text) - 1

    def check_learnt(self, number: int) -> None:
        """Complain about a task, counted from 1 as people do, that has not been learnt."""
        if not 1 <= number <= self.num_learnt:
            raise UserError(
                f"This run has learnt the tasks 1 to {self.num_learnt} and not task {number}."
                if self.num_learnt
                else "This run has not learnt any task yet."
            )

    def model(self, task: int | str) -> Model:
        """The dynamics model of one task."""
        index = self.index(task)
        if index not in self._models:
            self._models[index] = self.config.learner.predict(self._learnt.state, index)
        return self._models[index]

    def value(self, task: int | str) -> Value | None:
        """What lies behind the horizon in one task, if the run has learnt it."""
        return self._learnt.values.of(self.index(task))

    def warm_up(self, task: int | str | None = None, *, batch: int | None = None) -> float:
        """Compile all that `act` and `uncertainty` will need, so that no first step is late.

        For one task or all, and for `batch` observations at a time if there will be several.
        Returns the seconds that a whole plan takes from now on.
        """
        tasks = range(self.num_learnt) if task is None else [self.index(task)]
        shape = () if batch is None else (batch,)
        states = np.zeros((*shape, self.suite.spec.state_dim), np.float32)
        infos: list[dict[str, Any]] = []
        for index in tasks:
            for planner in self._pacing.variants:
                start = self._start(shape)
                plans = [
                    self._plan(index, states, start, planner, number=0)
                    for _ in range(WARM_UP_PLANS)
                ]
                infos.append(plans[-1][1])
            if isinstance(self.model(index), DynamicsModel):
                self.uncertainty(states, self._zero_action(shape), index)
        if self._thread is not None and tasks:
            self._expected(tasks[0], states, self._zero_action(shape))
        self._pacing.forget()
        return max((info["seconds"] for info in infos), default=0.0)

    def reset(self, seed: int | None = None) -> None:
        """Forget the plan under way, as at the start of an episode.

        With a seed, what is drawn from now on starts anew: the same observations then lead to
        the same actions.
        """
        if self._ahead is not None:
            self._ahead.result()
        self._ahead = self._situation = None
        if seed is not None:
            self._seed, self._num_plans = seed, 0

    def act(self, observation: Any, task: int | str) -> Float[np.ndarray, "*B A"]:
        """The next action for an observation [S], or actions for a batch of them [B, S].

        Observations may be of any array type; actions are NumPy's, within the action bounds. The
        rows of a batch are planned for apart, each with the plan that it had before.
        """
        index, states = self.index(task), self._check(observation)
        if self._situation != (index, states.shape):
            self.reset()
            self._situation = (index, states.shape)
            self._plan_state = self._start(states.shape[:-1])
        if self._ahead is not None:
            plan, info = self._ahead.result()
        else:
            plan, info = self._next_plan(index, states)
        self.info, self._plan_state = info, plan.state
        action = np.clip(np.asarray(plan.action), self._low, self._high)
        if self._thread is not None:
            self._ahead = self._thread.submit(self._plan_ahead, index, states, action)
        return action

    def uncertainty(self, observation: Any, action: Any, task: int | str) -> Uncertainty:
        """What the model knows of its own prediction at an observation and action, or at many."""
        model, states = self.model(task), self._check(observation)
        if not isinstance(model, DynamicsModel):
            raise UserError(
                f"The models of the method '{self.config.method}' do not say what they know."
            )
        actions = np.asarray(action, np.float32)
        if actions.shape != (*states.shape[:-1], self.suite.spec.action_dim):
            raise UserError("There must be one action for each observation.")
        std, inputs = _look_inside(model, states, actions)
        distance = np.abs(np.asarray(inputs)).max(-1)
        return Uncertainty(None if std is None else np.asarray(std), distance)

    def close(self) -> None:
        """End the planning in the background."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def __enter__(self) -> "Controller":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _check(self, observation: Any) -> Float[np.ndarray, "*B S"]:
        size = self.suite.spec.state_dim
        try:
            states = np.asarray(observation, np.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"An observation must be {size} finite numbers: {error}.") from error
        if states.ndim not in (1, 2) or states.shape[-1] != size or not np.isfinite(states).all():
            raise UserError(f"An observation must be {size} finite numbers.")
        return states

    def _zero_action(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros((*shape, self.suite.spec.action_dim), np.float32)

    def _start(self, shape: tuple[int, ...]) -> Any:
        """The planner's state before the first plan, one for each row of a batch."""
        start = self.config.planner.init(self.suite.spec)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), start)

    def _next_plan(self, index: int, states: np.ndarray) -> tuple[Plan, dict[str, Any]]:
        number, self._num_plans = self._num_plans, self._num_plans + 1
        return self._plan(index, states, self._plan_state, self._pacing.choose(), number)

    def _plan_ahead(
        self, index: int, states: np.ndarray, action: np.ndarray
    ) -> tuple[Plan, dict[str, Any]]:
        """Plan from where the action is expected to lead. Runs beside the caller."""
        return self._next_plan(index, self._expected(index, states, action))

    def _expected(self, index: int, states: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.asarray(_next_states(self.model(index), states, action))

    def _plan(
        self, index: int, states: np.ndarray, start: Any, planner: Planner, number: int
    ) -> tuple[Plan, dict[str, Any]]:
        key = streams.key(self._seed, "act", number)
        model, reward = self.model(index), self.suite.tasks[index].reward
        value = self.value(index)
        behind = {} if value is None else {"value": value}
        info: dict[str, Any] = {}
        with self._pacing.measured(planner, info):
            if states.ndim == 1:
                plan = planner.plan(start, model, reward, jnp.asarray(states), key=key, **behind)
            else:
                keys = jax.random.split(key, len(states))
                plan = _plan_batch(planner, start, model, reward, behind, states, keys)
            jax.block_until_ready(plan)
        return plan, {**{name: np.asarray(x)[()] for name, x in plan.info.items()}, **info}


@boundary("The run's controller")
def load(run: str | Path, *, budget: float | None = None, background: bool = False) -> Controller:
    """The controller of a run's folder, or the one that comes with a suite's name.

    See `Controller` for the options.
    """
    folder = Path(run)
    if not folder.exists() and str(run) in shipped.names():
        folder = shipped.find(str(run))
    config = RunConfig.from_stored(read_config(folder))
    return Controller(config, _read(config, folder), budget=budget, background=background)


def _read(config: RunConfig, folder: Path) -> Learnt:
    """What the last checkpoint of a run knows, or a controller that was made of one."""
    spec = config.build_suite().spec
    if (folder / shipped.CONTROLLER).exists():
        arrays, info = shipped.read(folder / shipped.CONTROLLER, config, spec)
    else:
        found = checkpoint.load_latest(folder / CHECKPOINT)
        if found is None:
            raise UserError(f"{folder} has no checkpoint yet; train it first.")
        arrays, info = found
    values = Values(config.critic, spec)
    values.set_state(checkpoint.section(arrays, "values"))
    # A task counts as learnt once it has had a training session.
    at = Position(**info["position"])
    num_tasks = at.task + (1 if at.sessions > 0 else 0)
    return Learnt(learner_state(config, spec, arrays), values, num_tasks)


@eqx.filter_jit
def _plan_batch(planner: Planner, starts, model, reward, behind, states, keys) -> Plan:
    """A plan for each row, with one model."""

    def plan(start, state, key):
        return planner.plan(start, model, reward, state, key=key, **behind)

    return jax.vmap(plan)(starts, jnp.asarray(states), keys)


@eqx.filter_jit
def _next_states(model: Model, states, actions):
    states, actions = jnp.asarray(states), jnp.asarray(actions)
    return model(states, actions) if states.ndim == 1 else jax.vmap(model)(states, actions)


@eqx.filter_jit
def _look_inside(model: DynamicsModel, states, actions):
    def look(state, action):
        return model.std(state, action), model.inputs(state, action)

    states, actions = jnp.asarray(states), jnp.asarray(actions)
    return look(states, actions) if states.ndim == 1 else jax.vmap(look)(states, actions)
