"""Imported before any test module: what JAX and MuJoCo must find already chosen.

Every function of the package is checked against its annotations, shapes included, and arrays of
different ranks never broadcast silently.
"""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

from jaxtyping import install_import_hook

# Tests compile much and run it briefly, so they ask for code that is ready soon, not for fast code.
# `make test-all` says 0 here and runs what a user would run.
if os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1":
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "")
        + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# What one process has compiled, the others take over: pytest's workers and the programs of tests.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="hypercrl-compiled-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# Plugins that a test names are not to be remembered in the state folder of whoever runs it.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="hypercrl-tests-")

# `make fuzz` hands in what annotations forbid, and what it tries is what a user would run.
if os.environ.get("HYPOTHESIS_PROFILE") != "fuzz":
    install_import_hook("hypercrl", "annotations.checked")

import jax
import pytest
from jaxtyping import config

import hypercrl.simulation  # chooses the renderer
from hypercrl.registry import learners, planners, suites


@pytest.fixture
def unchecked():
    """For tests that hand in what annotations forbid, as a person might."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def registries(monkeypatch):
    """For tests that register variants of their own, which are forgotten afterwards."""
    for registry in (suites, learners, planners):
        registry.names()  # loads the built-in ones, which must stay
        monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    monkeypatch.setattr(hypercrl.registry, "_plugins", {})


# Everything compiled takes some of the 65,530 pieces of memory that Linux lets a process map; one
# that compiles what it has no piece left for dies.
MOST_PIECES = 20_000


def pytest_runtest_teardown(item, nextitem):
    """Let go of what was compiled before there is too much of it; looked at once a test module."""
    if nextitem is not None and nextitem.path != item.path and _num_pieces() > MOST_PIECES:
        jax.clear_caches()
        gc.collect()


def _num_pieces() -> int:
    pieces = Path("/proc/self/maps")
    return len(pieces.read_bytes().splitlines()) if pieces.exists() else 0


LONGEST = ("test_sweep", "test_learning", "test_ray", "test_readme", "test_report")


def pytest_collection_finish():
    """Everything imported by now stays: garbage need not be looked for in it, nor so often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_collection_modifyitems(items):
    """What starts programs of its own and waits for them goes first, so that nothing ends alone."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
