"""What is derived from a session's events beside its row: words to search, a tally to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import sqlite3

    from holdfast.model import Event
    from holdfast.replay import State

__all__ = ["Tallied", "add", "create_tables", "forget", "tallied"]


class Tallied(msgspec.Struct, frozen=True):
    """What a tally says of a session, and its bytes to go on from."""

    data: bytes = b""
    model: str | None = None
    auto_tags: tuple[str, ...] = ()

    def cost(self, state: State) -> float | None:
        """What the session has cost, where that is known."""
        return state.usage.cost


def create_tables(connection: sqlite3.Connection) -> None:
    """The tables of every part, in an index that is new."""


def forget(connection: sqlite3.Connection, row: int) -> None:
    """The session is gone, or is about to be read anew."""


def add(connection: sqlite3.Connection, row: int, events: Sequence[Event]) -> None:
    """The next events of a session."""


def tallied(kept: bytes, events: Sequence[Event]) -> Tallied:
    """The tally after these events, and what follows from it.

    ``kept`` is the tally after the events before, or nothing for a session that is read from its
    beginning.
    """
    from holdfast.catalog._tally import Tally

    tally = Tally.from_bytes(kept) if kept else Tally()
    tally.feed(events)
    return Tallied(tally.to_bytes(), tally.model)
