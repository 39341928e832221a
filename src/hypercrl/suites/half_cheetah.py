"""Run with a half-cheetah of which one body part is larger in each task (the paper's last suite).

The body is Gymnasium's half-cheetah. A task multiplies the sizes of one part's geoms: radius
and half-length of a capsule, about its own centre, with the joints where they were. The torso
is given to MuJoCo by its two ends, the hips, so it only becomes thicker. Gymnasium's model
fixes the total mass at 14 kg and so do we: a larger part takes mass from all the others.

State: forward velocity over the last control step, then joint positions without the forward
one, then joint velocities, 18 numbers. The velocity is predicted as a value and the rest as
differences. Reward: next forward velocity - 0.1 ‖a‖².
"""

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float

from hypercrl.dynamics.full_hypernet import FullHypernet
from hypercrl.dynamics.low_rank_hypernet import LowRankHypernet
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Absolute, Angle, Difference, Encoding
from hypercrl.errors import UserError
from hypercrl.learning.critic import Critic
from hypercrl.learning.training import Training
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.presets import LAPTOP_METHODS, Preset, Schedule
from hypercrl.registry import suites
from hypercrl.simulation.env import MujocoEnv
from hypercrl.simulation.rendering import Camera
from hypercrl.types import Spec, Suite, Task

MODEL_FILE = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "half_cheetah.xml"

PARTS = {
    "torso": ("torso",),
    "thighs": ("bthigh", "fthigh"),
    "shins": ("bshin", "fshin"),
    "feet": ("bfoot", "ffoot"),
}
# (part, factor) of the paper's five tasks; the first is the standard body.
PAPER_BODIES = (("torso", 1.0), ("torso", 1.25), ("thighs", 1.25), ("shins", 1.25), ("feet", 1.25))
# Longer sequences go on with every part times every one of these, in an order drawn once.
OTHER_SCALES = (0.75, 0.85, 1.15, 1.35, 1.5)
BODY_SEED = 0

PHYSICS_STEPS = 5  # of 0.01 s each, as in Gymnasium: control at 20 Hz
START_NOISE = 0.1  # Gymnasium's: half-width of positions, standard deviation of velocities
ACTION_COST = 0.1

SPEC = Spec(
    state_dim=18,
    action_dim=6,
    action_low=(-1.0,) * 6,
    action_high=(1.0,) * 6,
    episode_length=1_000,
    encoding=Encoding(
        (
            Absolute(1),  # forward velocity
            Difference(1),  # height
            Angle(1),  # pitch: a somersault ends where it began
            Difference(15),
        )
    ),
)

PITCH = 2  # in the state, rad; upright at 0

LAPTOP = Preset(
    schedule=Schedule(
        random_episodes=40,
        steps_per_task=24_000,  # and 4,000 random ones; with 16,000 one test in eleven was a fall
        # A half-cheetah that has fallen on its back slides on slowly and, if it is given the time,
        # fills its data with that. As long as it runs, longer episodes teach it full speed.
        episode_steps=100,
        update_every=500,  # so that one that has fallen learns to get up while it lies there
        eval_episodes=5,
        retest_episodes=1,
    ),
    network=Network(
        hidden=(128, 128, 128, 128),
        activation="swish",
        head="point",  # its mean is learnt in half the updates of the Gaussian's
        scale_targets=True,
    ),
    hypernet=LowRankHypernet(),  # a chunked one is too weak for networks of this depth
    training=Training(anneal=True),  # or now and then a session ends with a model that tips over
    planners=(
        ICEM(
            horizon=20,  # a second; with twelve steps it runs faster and falls more often
            num_samples=64,
            num_elites=16,  # a quarter: a keener search finds the model's errors, and falls
            noise_beta=0.25,  # running is a quick rhythm: whiter noise than pushing needs
            momentum=0.0,
            execute="mean",  # the best of 64 owes too much to the model's errors, and falls
        ),
        CEM(horizon=30, num_elites=50),
    ),
    # Tipping over is the quickest way forward for a second, and only then a dead end.
    critic=Critic(updates=1_000),
    methods=LAPTOP_METHODS,
)
PAPER = Preset(
    schedule=Schedule(steps_per_task=100_000, update_every=1_000),
    network=Network(hidden=(200, 200, 200, 200), head="gaussian"),
    hypernet=FullHypernet(hidden=(256, 256), activation="relu"),
    planners=(CEM(horizon=30, num_elites=50),),
)

FLOOR_SCALE = 10  # Gymnasium's floor is drawn to 40 m, and a good run is longer than 100 m
SCENE_SIZE = 10.0  # metres; shadows are drawn as finely as this is small
BODY_COLOUR = (0.85, 0.60, 0.33, 1.0)
SCALED_COLOUR = (0.16, 0.36, 0.60, 1.0)


def forward_reward(
    state: Float[Array, "18"], action: Float[Array, "6"], next_state: Float[Array, "18"]
) -> Float[Array, ""]:
    return next_state[0] - ACTION_COST * jnp.sum(action**2)


def mean_speed(states: Float[np.ndarray, "H 18"]) -> float:
    """Forward speed averaged over an episode."""
    return float(np.mean(np.asarray(states)[1:, 0]))


def time_on_back(states: Float[np.ndarray, "H 18"]) -> float:
    """Share of an episode in which the torso is upside down."""
    return float(np.mean(_is_upside_down(states)))


def ends_on_back(states: Float[np.ndarray, "H 18"]) -> float:
    """1 where the torso is upside down when the episode is over."""
    return float(_is_upside_down(states)[-1])


def _is_upside_down(states: Float[np.ndarray, "H 18"]) -> Bool[np.ndarray, "H"]:
    return np.cos(np.asarray(states)[:, PITCH]) < 0


class HalfCheetahEnv(MujocoEnv):
    """The half-cheetah with the geoms of `part` multiplied by `scale`."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, part: str, scale: float, render_mode: str | None = None):
        camera = Camera(lookat=(0.0, 0.0, 0.45), distance=3.2, azimuth=100.0, elevation=-12.0)
        super().__init__(_build(part, scale), SPEC, forward_reward, camera, render_mode)
        self._forward_velocity = 0.0

    def place(self, rng: np.random.Generator) -> None:
        self.data.qpos[:] += rng.uniform(-START_NOISE, START_NOISE, self.model.nq)
        self.data.qvel[:] = START_NOISE * rng.standard_normal(self.model.nv)
        self._forward_velocity = float(self.data.qvel[0])

    def observe(self) -> np.ndarray:
        return np.concatenate([[self._forward_velocity], self.data.qpos[1:], self.data.qvel])

    def advance(self, action: np.ndarray) -> None:
        before = self.data.qpos[0]
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=PHYSICS_STEPS)
        control_step = PHYSICS_STEPS * self.model.opt.timestep
        self._forward_velocity = float((self.data.qpos[0] - before) / control_step)

    def render(self):
        lookat = (float(self.data.qpos[0]), *self.camera.lookat[1:])
        self.camera = dataclasses.replace(self.camera, lookat=lookat)
        return super().render()

    def get_state(self) -> dict[str, np.ndarray]:
        return super().get_state() | {"forward_velocity": np.array(self._forward_velocity)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._forward_velocity = float(state["forward_velocity"])
        super().set_state(state)


@suites.register("half_cheetah")
def half_cheetah(num_tasks: int = 5) -> Suite:
    """The paper's five bodies, or up to 25."""
    bodies = _bodies()
    if not 1 <= num_tasks <= len(bodies):
        raise UserError(
            f"The suite 'half_cheetah' has 1 to {len(bodies)} tasks and cannot make {num_tasks}."
        )
    tasks = tuple(_task(part, scale) for part, scale in bodies[:num_tasks])
    return Suite(
        "half_cheetah",
        SPEC,
        tasks,
        {"laptop": LAPTOP, "paper": PAPER},
        measures={
            "mean forward speed (m/s)": mean_speed,
            "time on its back (share)": time_on_back,
            "ends on its back (share)": ends_on_back,
        },
    )


def _task(part: str, scale: float) -> Task:
    name = "standard body" if scale == 1.0 else f"{part} × {scale:g}"
    return Task(name, functools.partial(HalfCheetahEnv, part, scale), forward_reward)


def _bodies() -> list[tuple[str, float]]:
    others = list(itertools.product(PARTS, OTHER_SCALES))
    order = np.random.default_rng(BODY_SEED).permutation(len(others))
    return [*PAPER_BODIES, *(others[i] for i in order)]


def _build(part: str, scale: float) -> mujoco.MjModel:
    model = mujoco.MjSpec.from_file(str(MODEL_FILE))
    model.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    for geom in model.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_CAPSULE:
            geom.rgba = BODY_COLOUR
    for name in PARTS[part]:
        geom = model.geom(name)
        geom.size = geom.size * scale
        geom.rgba = SCALED_COLOUR if scale != 1.0 else BODY_COLOUR
    _decorate(model)
    # The file asks for its total mass with an attribute that MuJoCo deprecates; this is the same.
    total_mass = model.compiler.settotalmass
    model.compiler.settotalmass = -1
    compiled = model.compile()
    mujoco.mj_setTotalmass(compiled, total_mass)
    mujoco.mj_setConst(compiled, mujoco.MjData(compiled))
    return compiled


def _decorate(model: mujoco.MjSpec) -> None:
    """Light colours and soft light from the side; nothing that the physics sees."""
    sky, _, floor = model.textures
    sky.rgb1, sky.rgb2 = (0.93, 0.95, 0.97), (0.62, 0.72, 0.84)
    floor.rgb1, floor.rgb2 = (1.0, 1.0, 1.0), (0.82, 0.86, 0.90)
    material = model.material("MatPlane")
    material.reflectance = material.specular = material.shininess = 0.0
    ground = model.geom("floor")
    ground.rgba = (1.0, 1.0, 1.0, 1.0)
    ground.size = ground.size * FLOOR_SCALE
    material.texrepeat = material.texrepeat * FLOOR_SCALE
    model.stat.extent = SCENE_SIZE
    model.visual.headlight.ambient = model.visual.headlight.diffuse = (0.35, 0.35, 0.35)
    (light,) = model.lights
    light.dir, light.diffuse = (0.25, 0.5, -1.0), (0.5, 0.5, 0.5)
    light.mode = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM  # or the shadow stays behind
