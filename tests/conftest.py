"""Imported before any test module: MuJoCo must find the renderer already chosen."""

import pytest

import hypercrl.simulation  # noqa: F401
import tiny


@pytest.fixture(scope="module")
def quickly():
    """For modules that compile much and run it briefly."""
    with tiny.compiled_quickly():
        yield
