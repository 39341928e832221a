"""Imported before any test module: MuJoCo must find the renderer already chosen."""

import hypercrl.simulation  # noqa: F401
