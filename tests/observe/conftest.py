"""Fixtures of the observe room: a Holdfast on files, without background timers."""

from __future__ import annotations

import pytest

from holdfast.library import Holdfast


@pytest.fixture
def hf(store_root):
    """The sessions of a fresh file store; timers off, so that nothing happens by itself."""
    library = Holdfast(store_root, timers=False)
    yield library
    library.close()
