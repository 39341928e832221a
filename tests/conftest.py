"""Imported before any test module: what JAX and MuJoCo must find already chosen."""

import os

# Tests compile much and run it briefly, so they ask for code that is ready soon, not for fast code.
# `make test-all` says 0 here and runs what a user would run.
if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"
    )

import hypercrl.simulation  # noqa: F401  (chooses the renderer)
