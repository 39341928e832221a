"""Pictures of a simulation, also on machines without a screen."""

import atexit
import weakref
from dataclasses import dataclass

import mujoco
import numpy as np

from hypercrl.errors import UserError


@dataclass(frozen=True)
class Camera:
    """Where a suite is looked at from: orbit angles in degrees around a point, in metres."""

    lookat: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float
    width: int = 640
    height: int = 480


_open_renderers: "weakref.WeakSet[mujoco.Renderer]" = weakref.WeakSet()


def open_renderer(model: mujoco.MjModel, camera: Camera) -> mujoco.Renderer:
    """A renderer for the camera's size; says which package is missing where there can be none."""
    try:
        renderer = mujoco.Renderer(model, camera.height, camera.width)
    except Exception as error:
        raise UserError(
            "No picture can be rendered because MuJoCo found no OpenGL library; install one "
            "(Debian and Ubuntu: `apt-get install libosmesa6`) and, where mujoco is imported "
            "before hypercrl, set MUJOCO_GL=osmesa."
        ) from error
    _open_renderers.add(renderer)
    return renderer


def render(renderer: mujoco.Renderer, data: mujoco.MjData, camera: Camera) -> np.ndarray:
    """An RGB picture [height, width, 3]."""
    view = mujoco.MjvCamera()
    view.lookat[:] = camera.lookat
    view.distance, view.azimuth, view.elevation = camera.distance, camera.azimuth, camera.elevation
    renderer.update_scene(data, view)
    return renderer.render()


@atexit.register
def _close_renderers() -> None:
    # OpenGL's libraries are gone by the time the interpreter would close what is left open.
    for renderer in list(_open_renderers):
        renderer.close()
