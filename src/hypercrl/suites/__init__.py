"""Ordered tasks, one file a suite. Every module here registers one suite under its own name."""

import hypercrl.simulation  # noqa: F401  (chooses the renderer before a suite imports MuJoCo)
