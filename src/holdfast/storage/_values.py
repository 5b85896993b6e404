"""What a store tells of itself and of its keys, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

__all__ = ["Capabilities", "Changes", "Entry", "Pieces", "Stamp"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do; the contract suite checks that it is true."""

    stores: bool = True
    """What was appended is there after its lease is given back."""
    survives_kill: bool = False
    """An append that returned survives kill -9 of the process."""
    syncs: bool = False
    """A sync that returned survives power loss."""
    can_steal: bool = False
    """A lease can be taken over from a holder that lives; the holder is then fenced."""
    defers: bool = False
    """An append is accepted now and sent later, so that it may fail later."""
    shared: bool = False
    """Several processes see the same keys."""
    archives: bool = False
    """A log can be kept compressed, unnoticed by whoever reads it."""


class Entry(NamedTuple):
    """One key that has a log: what a list needs without opening it. ``modified`` is Unix ms."""

    key: str
    size: int
    modified: int
    etag: str


class Stamp(NamedTuple):
    """How a log was at a moment. ``modified`` is in nanoseconds."""

    inode: int
    size: int
    modified: int


class Pieces(NamedTuple):
    """Some bytes of one log, and how it was just before they were read."""

    stamp: Stamp
    data: Sequence[bytes]


class Changes(NamedTuple):
    """What may have changed since a mark was taken; more than did change is allowed, less is not.

    ``keys`` are those whose log may have changed, None for all of them. ``listed`` says that keys
    may have come or gone by other hands than a store's: compare with ``Store.folders``.
    """

    mark: str
    keys: frozenset[str] | None
    listed: bool
