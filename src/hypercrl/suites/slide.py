"""Slide a block out of reach to its goal by hitting another one against it (Section V-C).

The tool reaches block 1 only. A blow sends it against block 2, which slides on until friction
stops it; the friction of block 2 differs per task, and so does the blow that brings it to the
goal. Once block 2 is on its way nothing can be put right.
"""

import functools
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hypercrl.dynamics.encoding import Encoding
from hypercrl.errors import UserError
from hypercrl.registry import suites
from hypercrl.simulation.panda import Mount
from hypercrl.simulation.rendering import Camera
from hypercrl.simulation.tabletop import (
    TabletopEnv,
    Workspace,
    corner_reward,
    load_scene,
    square,
)
from hypercrl.types import Settings, Spec, Suite, Task

# Coulomb friction of block 2 on the table, in the paper's order of more and less slippery. The
# values are ours: below 0.01 block 2 does not come to rest within an episode, above 0.03 no
# blow carries it to the goal.
FRICTIONS = (0.014, 0.010, 0.018, 0.022, 0.027)
# Longer sequences continue log-uniformly between the extremes.
FRICTION_RANGE = (0.010, 0.027)
FRICTION_SEED = 0
MAX_TASKS = 100

HALF = 0.03  # m, half the side of either block
HEIGHT = 0.06  # m
GOAL_CENTRE = (0.28, 0.0)  # m
GOAL = square(GOAL_CENTRE, HALF)
EFFORT = 0.1
SUCCESS_DISTANCE = 0.05  # m, of block 2's centre at the end

SPEC = Spec(
    state_dim=18,  # tool relative to block 1, four corners of either block: x and y each
    action_dim=2,
    action_low=(-1.0, -1.0),
    action_high=(1.0, 1.0),
    episode_length=30,
    encoding=Encoding.differences(18),
)
MOUNT = Mount(position=(-0.6, 0.0, 0.8), tool_position=(-0.14, 0.0, 0.83))
# Block 2 lies beyond x = 0.01, and were it turned on the spot, beyond −0.003; the tip of the tool
# has a radius of 0.01 and overshoots by 0.007.
WORKSPACE = Workspace(x=(-0.28, -0.025), y=(-0.15, 0.15))
CAMERA = Camera(lookat=(-0.05, -0.02, 0.98), distance=1.4, azimuth=142, elevation=-22)

LAPTOP = Settings(
    steps_per_task=3_000,
    update_every=150,
    updates=500,
    scale_targets=True,
    hypernet_hidden=(20, 20),
    hypernet_learning_rate=1e-3,
    chunk_size=2_000,
    beta=0.5,
    lookahead=False,
    planner="icem",
    planning={
        "horizon": 20,
        "num_samples": 128,
        "num_iterations": 3,
        "num_elites": 16,
        "num_kept": 5,
        "noise_beta": 2.5,
        "momentum": 0.1,
        "init_std": 1.0,
    },
)
PAPER = Settings(
    steps_per_task=3_000,
    update_every=150,
    updates=500,
    hypernet_activation="relu",
    beta=0.5,
    planning={
        "horizon": 20,
        "num_samples": 500,
        "num_elites": 40,
        "num_iterations": 5,
        "init_std": 1.0,
    },
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
        scene.geom("block2").friction[0] = friction
        super().__init__(scene, SPEC, reward, CAMERA, MOUNT, WORKSPACE, render_mode)

    def observe(self) -> Float[np.ndarray, "18"]:
        blocks = [self.corners(block, HALF) for block in ("block1", "block2")]
        return np.concatenate([self.tool_offset("block1"), *blocks])


@suites.register("slide")
def slide(num_tasks: int = 5) -> Suite:
    """Tasks differ in the friction between block 2 and the table."""
    tasks = tuple(
        Task(
            name=f"friction {friction:g}",
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
