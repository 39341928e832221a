"""A door with one of three handles in front of the arm, and the latch that keeps it shut.

The latch is an equality constraint on the door's joint that is switched on and off. A bolt made
of contacts jams while the handle turns, and moving the hinge's limit would change the model,
where a saved state does not see it.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from hypercrl.simulation.panda import MAX_OPENING, Mount, add_panda

TURN_RANGE = 1.57  # rad, of a handle that turns and of the door
HANDLE_Y = -0.35  # m, where the handle's axis is on the shut door
START_DISTANCE = 0.1  # m, of the tool in front of the handle

_DOOR = Path(__file__).with_name("door.xml")
_ARROW_LENGTH = 0.06  # m
# On the pedestal; from here the arm turns and pulls with every joint 0.4 rad from its limits.
_BASE = (0.6, 0.2, 0.3)  # m
_POSTURE = (0.91, 0.18, 0.20, -1.42, -1.62, 2.03, 0.81)  # rad


@dataclass(frozen=True)
class Door:
    """What differs between doors. A handle is the file `handle_*.xml` of that name."""

    handle: str
    direction: int = 0  # in which the handle turns, seen by the arm: -1 clockwise, 1 counter
    height: float = 1.0  # m, of the handle above the floor
    mass: float = 10.0  # kg, of the leaf
    damping: float = 1.6  # N m s/rad, of the hinge

    @property
    def turn_range(self) -> tuple[float, float]:
        """The angles in rad that the handle may have; none but 0 where it does not turn."""
        end = self.direction * TURN_RANGE
        return min(end, 0.0), max(end, 0.0)


def build_door(door: Door) -> tuple[mujoco.MjSpec, Mount]:
    """The scene, not compiled yet, and how the arm stands in it."""
    scene = mujoco.MjSpec.from_file(str(_DOOR))
    handle = mujoco.MjSpec.from_file(str(_DOOR.with_name(f"handle_{door.handle}.xml")))
    mount = _face(handle.site("grasp"), door.height)
    if door.direction:
        handle.joint("turn").range = door.turn_range
        _draw_arrow(handle, door.direction)
        _add_latch(scene)
    scene.joint("door").damping[0] = door.damping
    scene.geom("leaf").mass = door.mass
    leaf = scene.body("door")
    frame = leaf.add_frame(pos=[0.0, HANDLE_Y - leaf.pos[1], door.height])
    scene.attach(handle, prefix="handle_", frame=frame)
    add_panda(scene, mount)
    return scene, mount


def _face(grasp: mujoco.MjsSite, height: float) -> Mount:
    """The arm with its open gripper in front of where the handle is to be grasped."""
    x, y, z = grasp.pos.tolist()
    q_w, q_x, q_y, q_z = grasp.quat.tolist()
    return Mount(
        position=_BASE,
        yaw=math.pi,
        tool_position=(x + START_DISTANCE, y + HANDLE_Y, z + height),
        tool_quaternion=(q_w, q_x, q_y, q_z),
        posture=_POSTURE,
        opening=MAX_OPENING,
    )


def _add_latch(scene: mujoco.MjSpec) -> None:
    """Keep the door's joint at 0, as stiffly as its limits."""
    door = scene.joint("door")
    latch = scene.add_equality(name="latch", type=mujoco.mjtEq.mjEQ_JOINT, name1="door")
    latch.objtype = mujoco.mjtObj.mjOBJ_JOINT
    latch.solref, latch.solimp = door.solref_limit, door.solimp_limit


def _draw_arrow(handle: mujoco.MjSpec, direction: int) -> None:
    """An arc on the leaf about the handle's axis, with a point at its end; nothing touches it."""
    start = handle.site("arrow")
    line_width, point_length = start.size[0], 4 * start.size[0]
    radius, start_angle = math.hypot(*start.pos[1:]), math.atan2(start.pos[2], start.pos[1])
    arc = point_length / radius + _ARROW_LENGTH / radius * np.linspace(0.0, 1.0, 12)

    def place(angle, outwards=0.0):
        angle = start_angle + direction * angle
        reach = radius + outwards
        return np.array([start.pos[0], reach * math.cos(angle), reach * math.sin(angle)])

    lines = [(place(one), place(other)) for one, other in itertools.pairwise(arc)]
    for outwards in (-point_length, point_length):
        lines.append((place(arc[-1]), place(arc[-1] - point_length / radius, outwards)))
    for line in lines:
        site = handle.worldbody.add_site(type=mujoco.mjtGeom.mjGEOM_CAPSULE, rgba=start.rgba)
        site.size[0] = line_width
        site.fromto = np.concatenate(line)
