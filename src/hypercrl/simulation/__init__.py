"""What the MuJoCo suites share: the environment, the arm and its control, rendering.

MuJoCo chooses its OpenGL back end from `MUJOCO_GL` when it is first imported, so the choice is
made here, before any module of ours imports it: without a display OSMesa, the software
renderer, unless the user has chosen otherwise.
"""

import os
import sys

if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "osmesa")
