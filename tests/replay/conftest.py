"""Helpers of this room: a maker of broken logs and lists, and a judge of its own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"replay_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def maker():
    """Makes logs and lists, whole and broken, from seeds."""
    return _load("broken")


@pytest.fixture(scope="session")
def judge():
    """Judges lists by rules written down a second time."""
    return _load("judge")


@pytest.fixture(scope="session")
def rounds():
    """How many generated cases a bulk test runs: the push figure, or the long campaign's."""
    return 100_000 if FUZZ else 1_000
