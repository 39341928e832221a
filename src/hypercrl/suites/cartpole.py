"""Swing-up of a cart-pole whose pole has another length in each task.

The smallest suite with a real continual problem: the pole is a uniform rod of fixed mass per
metre, so its length changes both how fast it falls and how hard it pulls back on the cart. A
model of one length mistimes the swing of another.

State (x, θ, ẋ, θ̇) in metres and radians with θ = 0 upright; action in [-1, 1], scaled to a
force on the cart. Reward exp(-d² / l²) - 0.01 a² with d the distance of the pole's tip to its
place upright above the middle of the rail and l the pole's length.
"""

import functools
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from hypercrl.dynamics.chunked_hypernet import ChunkedHypernet
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Angle, Difference, Encoding
from hypercrl.errors import UserError
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.presets import LAPTOP_METHODS, Preset, Schedule
from hypercrl.registry import suites
from hypercrl.simulation.env import MujocoEnv
from hypercrl.simulation.rendering import Camera
from hypercrl.types import Reward, Spec, Suite, Task

MODEL_FILE = Path(__file__).with_suffix(".xml")

LENGTHS = (0.6, 0.8, 0.4, 1.0, 1.2, 0.5, 1.4, 0.7, 1.1, 0.3)  # m, in the order of the tasks
# Longer sequences go on with the other multiples of 5 cm in this range, in an order drawn once.
LENGTH_RANGE = (0.3, 1.5)  # m
LENGTH_STEP = 0.05  # m
LENGTH_SEED = 0

POLE_MASS_PER_METRE = 0.8  # kg/m; the cart weighs 0.5 kg, so the longest pole outweighs it
PHYSICS_STEPS = 5  # of 0.01 s each: control at 20 Hz
START_NOISE = 0.05  # standard deviation of x, θ, ẋ, θ̇ around hanging at rest
ACTION_COST = 0.01
HOLD_STEPS = 20  # 1 s
HOLD_COSINE = 0.9  # 26° from upright

SPEC = Spec(
    state_dim=4,
    action_dim=1,
    action_low=(-1.0,),
    action_high=(1.0,),
    episode_length=100,
    encoding=Encoding((Difference(1), Angle(1), Difference(2))),
)

LAPTOP = Preset(
    schedule=Schedule(random_episodes=5, steps_per_task=2_000, update_every=100, updates=500),
    network=Network(hidden=(100, 100), scale_targets=True),
    hypernet=ChunkedHypernet(hidden=(20, 20), chunk_size=400, initialisation="hyperfan"),
    # Or some seeds learn the second and third length badly and lose the first.
    training=Training(anneal=True),
    planners=(ICEM(horizon=25, decay=1.5), CEM(horizon=25)),
    methods={
        **LAPTOP_METHODS,
        # The best of five settings each on the first two tasks
        # (results/tables/cartpole-tuning.yaml).
        "ewc": {"strength": 100_000.0},
        "si": {"strength": 100.0},
        "coreset": {"learning_rate": 3e-3},
    },
)
PAPER = Preset(planners=(CEM(horizon=25),))


class TipReward(eqx.Module):
    """How near the tip of a pole of `length` is to its upright place, less the effort."""

    length: Float[Array, ""]

    def __call__(self, state, action, next_state):
        x, angle = next_state[0], next_state[1]
        sideways = x + self.length * jnp.sin(angle)
        below = self.length * (1.0 - jnp.cos(angle))
        squared = (sideways**2 + below**2) / self.length**2
        return jnp.exp(-squared) - ACTION_COST * jnp.sum(action**2)


class CartpoleEnv(MujocoEnv):
    """One cart with a pole of `length` metres that starts hanging."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, length: float, reward: Reward, render_mode: str | None = None):
        camera = Camera(lookat=(0.0, 0.0, 0.0), distance=4.6, azimuth=80.0, elevation=-12.0)
        super().__init__(_build(length), SPEC, reward, camera, render_mode)

    def place(self, rng: np.random.Generator) -> None:
        noise = START_NOISE * rng.standard_normal(4)
        self.data.qpos[:] = np.array([0.0, np.pi]) + noise[:2]
        self.data.qvel[:] = noise[2:]

    def observe(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])

    def advance(self, action: np.ndarray) -> None:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=PHYSICS_STEPS)


@suites.register("cartpole")
def cartpole(num_tasks: int = 5) -> Suite:
    """The first `num_tasks` lengths, at most 25."""
    lengths = _lengths()
    if not 1 <= num_tasks <= len(lengths):
        raise UserError(
            f"The suite 'cartpole' has 1 to {len(lengths)} tasks and cannot make {num_tasks}."
        )
    tasks = tuple(_task(length) for length in lengths[:num_tasks])
    return Suite("cartpole", SPEC, tasks, {"laptop": LAPTOP, "paper": PAPER}, held_upright)


def held_upright(states: Float[np.ndarray, "H S"]) -> bool:
    """Whether the pole stood above the cart throughout the last second."""
    return bool((np.cos(np.asarray(states)[-HOLD_STEPS:, 1]) > HOLD_COSINE).all())


def _task(length: float) -> Task:
    reward = TipReward(jnp.asarray(length, jnp.float32))
    return Task(f"{length:g} m", functools.partial(CartpoleEnv, length, reward), reward)


def _lengths() -> list[float]:
    low, high = LENGTH_RANGE
    grid = np.arange(round(low / LENGTH_STEP), round(high / LENGTH_STEP) + 1) * LENGTH_STEP
    others = [length for length in grid.round(2).tolist() if length not in LENGTHS]
    return [*LENGTHS, *np.random.default_rng(LENGTH_SEED).permutation(others).tolist()]


def _build(length: float) -> mujoco.MjModel:
    model = mujoco.MjSpec.from_file(str(MODEL_FILE))
    pole = model.geom("pole")
    pole.fromto[5] = length
    pole.mass = POLE_MASS_PER_METRE * length
    model.site("tip").pos = [0, 0, length]
    model.site("goal").fromto[5] = length
    return model.compile()
