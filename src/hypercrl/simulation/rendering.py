"""Pictures of a simulation, also on machines without a screen."""

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


_renderers: "weakref.WeakKeyDictionary[mujoco.MjModel, mujoco.Renderer]" = (
    weakref.WeakKeyDictionary()
)


def render(model: mujoco.MjModel, data: mujoco.MjData, camera: Camera) -> np.ndarray:
    """An RGB picture [height, width, 3]; says which package is missing where none can be made."""
    if model not in _renderers:
        try:
            _renderers[model] = mujoco.Renderer(model, camera.height, camera.width)
        except Exception as error:
            raise UserError(
                "No picture can be rendered because no OpenGL library was found; install one "
                "(Debian and Ubuntu: `apt-get install libosmesa6`) or set MUJOCO_GL."
            ) from error
    view = mujoco.MjvCamera()
    view.lookat[:] = camera.lookat
    view.distance, view.azimuth, view.elevation = camera.distance, camera.azimuth, camera.elevation
    renderer = _renderers[model]
    renderer.update_scene(data, view)
    return renderer.render()
