"""Slide a block out of reach to its goal by hitting another one against it (Section V-C).

The tool moves block 1 only, and not far enough to carry block 2 to the goal: a push sends both
on their way, block 1 is stopped, and block 2 slides the last 6 cm until friction stops it. Its
friction differs per task, and so does the push that brings it to the goal. Once block 2 is on
its own nothing can be put right.

The paper's state has no velocities, so a model cannot tell a block that slides from one that
rests. A short slide keeps that ambiguity small; with a single blow from where block 1 starts,
which must carry block 2 over 24 cm, no model learnt to aim (see docs/suites.md). So does a table
with a film of oil: viscous friction makes the way that is left proportional to the speed, dry
friction to its square. And block 1, which is the same in all tasks, shows by where it comes to
rest how fast both were.
"""

import dataclasses
import functools
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.model import Network
from hypercrl.errors import UserError
from hypercrl.learning.training import Training
from hypercrl.learning.weight_regulariser import WeightRegulariser
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.presets import LAPTOP_METHODS, Preset, Schedule
from hypercrl.registry import suites
from hypercrl.simulation.panda import Mount
from hypercrl.simulation.rendering import Camera
from hypercrl.simulation.tabletop import (
    TabletopEnv,
    Workspace,
    corner_reward,
    load_scene,
    planar_spec,
    square,
)
from hypercrl.types import Suite, Task

# Viscous friction of block 2 on the table: the share of its speed that is lost, per second. The
# order of more and less slippery is the paper's. The values are ours: above 2.3 the arm's fastest
# push hardly carries block 2 to the goal, and far below 0.85 it still slides when time is up.
FRICTIONS = (1.1, 0.85, 1.4, 1.8, 2.3)
# Longer sequences continue log-uniformly between the extremes.
FRICTION_RANGE = (0.85, 2.3)
FRICTION_SEED = 1
MAX_TASKS = 100

HALF = 0.03  # m, half the side of either block
HEIGHT = 0.06  # m
GOAL_CENTRE = (0.28, 0.0)  # m
GOAL = square(GOAL_CENTRE, HALF)
EFFORT = 0.1
SUCCESS_DISTANCE = 0.05  # m, of block 2's centre at the end

SPEC = planar_spec(num_blocks=2, episode_length=30)
MOUNT = Mount(position=(-0.6, 0.0, 0.8), tool_position=(-0.14, 0.0, 0.83))
# A lane behind block 1. Where it ends, block 2 touches block 1 with its centre 6 cm before the
# goal: between the tool's axis and that centre lie the tip's radius of 0.01 and a block and a
# half of 0.06. A full action strides a little further than the pusher's: what a slower arm can
# push to the goal at all, it pushes there at much the same speed, and the tasks are alike. A
# faster arm aims badly at ten actions a second.
WORKSPACE = Workspace(x=(-0.20, 0.12), y=(-0.03, 0.03), stride=0.065)
CAMERA = Camera(lookat=(-0.05, -0.02, 0.98), distance=1.4, azimuth=142, elevation=-22)

# With a constant step size a session ends now and then with a model that aims badly.
TRAINING = Training(anneal=True)
LAPTOP = Preset(
    schedule=Schedule(
        exploration_beta=2.0,  # moves block 2 in 6 of 10 random episodes; white noise in 4
        steps_per_task=4_050,  # a third more than the paper's, for a network half as large
        update_every=150,
        updates=500,
        retest_episodes=3,
    ),
    network=Network(hidden=(128, 128), scale_targets=True),
    # From Xavier's initialisation it learns the second task badly.
    hypernet=ChunkedHypernet(hidden=(20, 20), chunk_size=800, initialisation="hyperfan"),
    training=TRAINING,
    planners=(
        # Six rounds, because what has been let go cannot be put right.
        ICEM(num_iterations=6, decay=1.5, knots=10),
        CEM(),
    ),
    methods={
        **LAPTOP_METHODS,
        # The best of five settings each on the first two tasks (results/tables/slide-tuning.yaml);
        # EWC's is the paper's.
        "si": {"strength": 100.0},
        "coreset": {"training": dataclasses.replace(TRAINING, batch_size=200)},
    },
)
PAPER = Preset(
    schedule=Schedule(steps_per_task=3_000, update_every=150, updates=500),
    hypernet=FullHypernet(activation="relu"),
    methods={"hypercrl": {"regulariser": WeightRegulariser(0.5)}},
)


def reward(
    state: Float[Array, "18"], action: Float[Array, "2"], next_state: Float[Array, "18"]
) -> Float[Array, ""]:
    """How close block 2's corners have come to the goal, less the effort."""
    return corner_reward(jnp.asarray(next_state)[10:], GOAL, action, EFFORT)


def goal_distance(states: Float[np.ndarray, "H 18"]) -> float:
    """How far block 2's centre is from its goal at the end of an episode."""
    centre = np.asarray(states)[-1, 10:].reshape(4, 2).mean(axis=0)
    return float(np.linalg.norm(centre - GOAL_CENTRE))


def succeeded(states: Float[np.ndarray, "H 18"]) -> bool:
    """Whether an episode ends with block 2 near its goal."""
    return goal_distance(states) <= SUCCESS_DISTANCE


def draw_frictions(num_tasks: int) -> tuple[float, ...]:
    """The first `num_tasks` frictions; a longer sequence only appends to a shorter one."""
    if not 1 <= num_tasks <= MAX_TASKS:
        raise UserError(f"Block sliding offers 1 to {MAX_TASKS} tasks, not {num_tasks}.")
    low, high = np.log(FRICTION_RANGE)
    drawn = np.exp(np.random.default_rng(FRICTION_SEED).uniform(low, high, MAX_TASKS))
    return (FRICTIONS + tuple(round(float(friction), 6) for friction in drawn))[:num_tasks]


class SlideEnv(TabletopEnv):
    """The arm and two blocks in line."""

    def __init__(self, friction: float, render_mode: str | None = None):
        scene = load_scene(Path(__file__).with_suffix(".xml"), GOAL, HEIGHT)
        super().__init__(scene, SPEC, reward, CAMERA, MOUNT, WORKSPACE, render_mode)
        self._lubricate(friction)

    def _lubricate(self, friction: float) -> None:
        """A film below block 2: speed and spin are lost at the same rate."""
        block, start = self.model.body("block2"), self.model.joint("block2").dofadr[0]
        self.model.dof_damping[start : start + 3] = friction * block.mass
        self.model.dof_damping[start + 3 : start + 6] = friction * block.inertia

    def observe(self) -> Float[np.ndarray, "18"]:
        blocks = [self.corners(block, HALF) for block in ("block1", "block2")]
        return np.concatenate([self.tool_offset("block1"), *blocks])


@suites.register("slide")
def slide(num_tasks: int = 5) -> Suite:
    """Tasks differ in the friction between block 2 and the table."""
    tasks = tuple(
        Task(
            name=f"friction {friction:g}/s",
            make=functools.partial(SlideEnv, friction),
            reward=reward,
        )
        for friction in draw_frictions(num_tasks)
    )
    return Suite(
        "slide",
        SPEC,
        tasks,
        {"laptop": LAPTOP, "paper": PAPER},
        success=succeeded,
        measures={"final distance of block 2 (m)": goal_distance},
    )
