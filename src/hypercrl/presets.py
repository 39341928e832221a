"""Presets: what a suite fixes for every method, made of the objects that it configures.

Each object validates itself. What a single method needs beyond them stands under its name in
`methods`; a name that nobody knows is an error as soon as the preset is made.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypercrl import checks
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.dynamics.model import Network
from hypercrl.errors import UserError
from hypercrl.learning.critic import Critic
from hypercrl.learning.prediction_regulariser import PredictionRegulariser
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.planning.noise import MAX_EXPONENT
from hypercrl.registry import hypernets, learners, planners, regularisers
from hypercrl.types import Learner, Planner

Changes = Mapping[str, Mapping[str, Any]]
"""Fields of learners, by method."""


@dataclass(frozen=True)
class Schedule:
    """Algorithm 1's counts, the paper's for pusher. Its letters are in brackets."""

    random_episodes: int = 10
    """Episodes of random actions before planning starts [P]."""
    steps_per_task: int = 4_000
    """Planned control steps in a task [M × K]."""
    update_every: int = 200
    """Control steps between training sessions [K]."""
    updates: int = 2_000
    """Gradient steps in a session [S]."""
    exploration_beta: float = 0.0
    """Power-law exponent of the random actions over time; 0 is white noise (the paper's)."""
    random_start: int = 0
    """Random actions that every training episode begins with, so that those from one and the same
    pose do not all go the same way; 0: none (the paper's)."""
    optimism: float = 0.0
    """In every other training episode plan with the best that the model holds possible, within so
    many of its standard deviations; 0: never (the paper's). Needs a Gaussian head to matter."""
    episode_steps: int = 0
    """Cut training episodes short after so many control steps in the first half of a task, and
    later where so many have earned less than those did on average; 0 lets them end like tests."""
    continuing: bool = False
    """Never reset the environment within a task once planning has started."""
    eval_episodes: int = 10
    """Test episodes where a number is reported: of a task just learnt, and of all at the end."""
    retest: bool = True
    """Test older tasks too at the end of every task, which shows what was forgotten."""
    retest_episodes: int = 0
    """Test episodes of an older task at the end of any task but the last; 0: `eval_episodes`."""
    retest_tasks: int = 0
    """Older tasks tested at the end of a task: the first, and others drawn anew; 0: all of them."""
    retest_all_every: int = 10
    """Tasks after which all are tested where otherwise only some are; 0: when the run ends only."""
    eval_every: int = 0
    """Control steps between test episodes during a task; 0 tests at task ends only."""
    curve_episodes: int = 1
    """Test episodes of each task that is tested during a task."""
    zero_shot: bool = True
    """Also test a task before anything has been learnt on it."""

    def __post_init__(self):
        checks.at_least(
            self, 1, "steps_per_task", "update_every", "eval_episodes", "curve_episodes"
        )
        checks.at_least(self, 0, "random_episodes", "updates", "episode_steps", "eval_every")
        checks.at_least(self, 0, "random_start", "optimism")
        checks.at_least(self, 0, "retest_episodes", "retest_tasks", "retest_all_every")
        checks.between(self, 0, MAX_EXPONENT, "exploration_beta")
        for name in ("steps_per_task", "eval_every"):
            if getattr(self, name) % self.update_every:
                raise UserError(
                    f"{name} ({getattr(self, name)}) must be a multiple of update_every "
                    f"({self.update_every})."
                )


@dataclass(frozen=True)
class Preset:
    """One column of the paper's table of settings, or one of our own."""

    schedule: Schedule = Schedule()
    network: Network = Network()
    """The target network, for methods that learn or generate one."""
    hypernet: Hypernet = FullHypernet()
    training: Training = Training()
    planners: tuple[Planner, ...] = (CEM(),)
    """The first one is the default."""
    critic: Critic = Critic()
    """What is learnt of what lies behind the horizon; nothing unless told."""
    methods: Changes = field(default_factory=dict)

    def __post_init__(self):
        for method in self.methods:
            self.learner(method)

    def learner(
        self, method: str, hypernet: str | None = None, regulariser: str | None = None
    ) -> Learner:
        """A method with this preset's parts, or with others by name at their own defaults."""
        cls = learners.get(method)
        own = [f.name for f in dataclasses.fields(cls)]
        changes = dict(self.methods.get(method, {}))
        if hypernet is not None:
            changes["hypernet"] = hypernets.get(hypernet)()
        if regulariser is not None:
            changes["regulariser"] = regularisers.get(regulariser)()
        for name in changes:
            if name not in own:
                raise UserError(
                    f"The method '{method}' has no setting '{name}'; it has: {', '.join(own)}."
                )
        parts = {"network": self.network, "hypernet": self.hypernet, "training": self.training}
        return cls(**{name: part for name, part in parts.items() if name in own} | changes)

    def planner(self, name: str | None = None) -> Planner:
        """The default planner, or one by name: the preset's, or with the suite's horizon alone."""
        for planner in self.planners:
            if name in (None, planners.name_of(type(planner))):
                return planner
        return planners.get(name or "")(horizon=self.planners[0].horizon)


# A small hypernetwork takes larger steps than the paper's, keeps as well without look-ahead, and
# stays plastic if it is held to what its networks predict rather than to their weights.
LAPTOP_METHODS: Changes = {
    "hypercrl": {
        "learning_rate": 1e-3,
        "lookahead": False,
        "regulariser": PredictionRegulariser(),
    },
    "hypercrl_mt": {"learning_rate": 1e-3},
}
