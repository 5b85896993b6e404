"""What can be the matter with an index."""

from __future__ import annotations


class IndexDamaged(Exception):
    """What the index gave is not what was put into it."""


class IndexMoved(Exception):
    """Others made the index anew meanwhile: begin again with what it is now."""


class IndexRefused(Exception):
    """The index may not be kept where it should be; another place has to do for a while."""
