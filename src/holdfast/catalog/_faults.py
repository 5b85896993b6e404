"""The faults of an index."""

from __future__ import annotations


class IndexDamaged(Exception):
    """The index returned something else than was put into it."""


class IndexMoved(Exception):
    """Others rebuilt the index meanwhile: start again with the new one."""


class IndexRefused(Exception):
    """The index may not be kept where it should be; another place is used for a while."""
