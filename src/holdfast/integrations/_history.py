"""A list of messages of a framework, kept as the conversation of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from holdfast.errors import UsageError
from holdfast.integrations._place import AdapterSession, Library
from holdfast.integrations._units import (
    Form,
    LogReader,
    Unit,
    Units,
    Words,
    apply,
    difference,
    retraction,
    stored,
    voices,
)
from holdfast.model import Event
from holdfast.session import Session

Change: TypeAlias = tuple[Sequence[Unit], Sequence[dict[str, Any]]]
"""Messages that are taken back, and items that are recorded."""


class MessageHistory:
    """What adapters of message histories have in common. Items are plain data."""

    def __init__(
        self,
        form: Form,
        hf: Library,
        framework: str,
        session_id: str,
        units: Callable[[Form, AdapterSession], Units] = Units,
    ) -> None:
        self.place = AdapterSession(hf, framework, session_id)
        self._form = form
        self.units = units(form, self.place)

    def read(self) -> list[Unit]:
        """All messages: own ones as items, what others recorded as neutral messages."""
        return voices(self.units.read())

    def append(self, items: Sequence[dict[str, Any]]) -> None:
        """Record items, all or none of them; they are on the medium when this returns."""
        # Encoded before the session is taken: what is refused then has kept nobody waiting.
        words = self.words(items)
        self.place.write(lambda session: self._record(session, words))

    async def aappend(self, items: Sequence[dict[str, Any]]) -> None:
        """Do what ``append`` does, without blocking the event loop."""
        words = self.words(items)
        await self.place.awrite(lambda session: self._record(session, words))

    def change(self, decide: Callable[[list[Unit]], Change]) -> None:
        """Take messages back, and record others; the log keeps both.

        What is to be done is decided on all there is, while nobody else can write.
        """

        def tell(units: list[Unit]) -> Words:
            gone, instead = decide(units)
            return [*retraction(gone), *self.words(instead)]

        self.record(tell)

    def record(self, tell: Callable[[list[Unit]], Words]) -> None:
        """Record what is to be told of all there is, which is asked while nobody else can write."""
        self.place.write(lambda session: self._record(session, tell(self.read())))

    async def arecord(self, tell: Callable[[list[Unit]], Words]) -> None:
        """Do what ``record`` does, without blocking the event loop."""
        await self.place.awrite(lambda session: self._record(session, tell(self.read())))

    def words(self, items: Sequence[dict[str, Any]]) -> Words:
        """The events of items."""
        return [word for item in items for word in self._form.record(item)]

    def _record(self, session: Session, words: Words) -> list[Event]:
        recorded = session.extend(words)
        self.units.take(recorded)
        return recorded


def missing(known: Sequence[Any], given: Sequence[Any], session_id: str) -> list[Any]:
    """What of a conversation that is brought over is not on record yet.

    Nothing if all of it is, also where the conversation went on since. Raises UsageError if what is
    on record is another conversation.
    """
    shared = min(len(known), len(given))
    # Two conversations under one id must not be mixed: neither could be told from the log.
    if list(known[:shared]) != list(given[:shared]):
        raise UsageError(f"session {session_id} holds another conversation than is brought over")
    return list(given[shared:])


# Named values that a framework saves again and again: each time only what changed is recorded.


class States(LogReader):
    """Values by name, kept in a session. A value is a change of the one recorded before it."""

    def __init__(self, place: AdapterSession, tool: str) -> None:
        self._tool = tool
        super().__init__(place)

    def _begin_again(self) -> None:
        self._values: dict[str, Any] = {}
        self._last: Any = None
        self._at: dict[str, int] = {}

    def names(self) -> list[str]:
        """The names in the order in which they were first recorded."""
        return list(self._values)

    def newest(self, name: str) -> Any:
        """The value of a name; None if there is none."""
        return self._values.get(name)

    def at(self, name: str) -> int:
        """The event by which the value of a name was recorded; -1 if there is none."""
        return self._at.get(name, -1)

    def record(self, name: str, value: Any, tell: Callable[[], Words] = list) -> None:
        """Record a value; it is on the medium when this returns.

        ``tell`` gives words to record with it. It is asked when nobody else can write any more.
        """

        def told() -> Words:
            change = difference(self._last, value)
            return [*tell(), self._frame("state", {"name": name, "change": change})]

        self.write(told)

    def remove(self, name: str) -> None:
        """Take a value back; the log keeps it."""
        self.write(lambda: [self._frame("removed", name)])

    def _frame(self, kind: str, told: Any) -> tuple[str, dict[str, Any]]:
        return stored(tool=self._tool, **{kind: told})

    def _take(self, event: Event) -> None:
        if event.type != "frame" or event.data.get("tool") != self._tool:
            return
        if "state" in event.data:
            told = event.data["state"]
            self._last = apply(self._last, told["change"])
            self._values[told["name"]] = self._last
            self._at[told["name"]] = event.seq
        elif "removed" in event.data:
            self._values.pop(event.data["removed"], None)
            self._at.pop(event.data["removed"], None)
