"""What is derived from a session's events beside its row: words to search, a tally to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from holdfast.model import Event

__all__ = ["add", "create_tables", "forget", "tallied"]


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of every part, in an index that is new."""


def forget(connection: sqlite3.Connection, row: int) -> None:
    """The session is gone, or is about to be read anew."""


def add(connection: sqlite3.Connection, row: int, events: Sequence[Event]) -> None:
    """The next events of a session."""


def tallied(kept: bytes, events: Sequence[Event]) -> tuple[bytes, tuple[str, ...]]:
    """The tally after these events, to be kept, and the automatic tags that follow from it.

    ``kept`` is the tally after the events before, or nothing for a session that is read from its
    beginning.
    """
    return b"", ()
