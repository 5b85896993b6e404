"""A list of messages of a framework, kept as the conversation of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import UsageError
from holdfast.integrations._place import Library, Place
from holdfast.integrations._units import Form, Unit, Units, Words, voices

__all__ = ["History", "missing"]


class History:
    """What adapters of message histories have in common. Items are plain data."""

    def __init__(self, form: Form, hf: Library, framework: str, session_id: str) -> None:
        self.place = Place(hf, framework, session_id)
        self._form = form
        self._units = Units(form, self.place)

    def read(self) -> list[Unit]:
        """All messages: own ones as items, what others recorded as neutral messages."""
        return voices(self._units.read())

    def append(self, items: Sequence[dict[str, Any]]) -> None:
        """Record items, all or none of them; they are on the medium when this returns."""
        self._write(self._words(items))

    async def aappend(self, items: Sequence[dict[str, Any]]) -> None:
        """The same without blocking the event loop."""
        words = self._words(items)
        if words:
            async with self.place.awriting() as session:
                self._units.take(session.extend(words))
                await session.abarrier()

    def retract(self, units: Sequence[Unit], *instead: dict[str, Any]) -> None:
        """Take messages back, and record others; the log keeps both."""
        seqs = [seq for unit in units for seq in unit.seqs]
        gone: Words = [("retracted", {"seqs": seqs})] if seqs else []
        self._write([*gone, *self._words(instead)])

    def _words(self, items: Sequence[dict[str, Any]]) -> Words:
        return [word for item in items for word in self._form.record(item)]

    def _write(self, words: Words) -> None:
        if words:
            with self.place.writing() as session:
                self._units.take(session.extend(words))
                session.barrier()


def missing(known: Sequence[Any], given: Sequence[Any], session_id: str) -> list[Any]:
    """What of a conversation that is brought over is not on record yet.

    Nothing if all of it is, also where the conversation went on since. Raises UsageError if what is
    on record is another conversation.
    """
    shared = min(len(known), len(given))
    if list(known[:shared]) != list(given[:shared]):
        raise UsageError(f"session {session_id} holds another conversation than is brought over")
    return list(given[shared:])
