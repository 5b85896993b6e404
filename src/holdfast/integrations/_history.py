"""A framework's list of messages, kept as the conversation of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from holdfast.errors import UsageError
from holdfast.integrations._place import Act, AdapterSession, Library
from holdfast.integrations._units import Form, LogReader, Unit, Units, Words, apply, difference, retract, stored, voices
from holdfast.model import Event
from holdfast.session import Session

Change: TypeAlias = tuple[Sequence[Unit], Sequence[dict[str, Any]]]  # messages taken back, and items recorded


class MessageHistory:
    """The base of adapters of message histories. Items are plain data."""

    def __init__(self, form: Form, hf: Library, framework: str, session_id: str, units: type[Units] = Units) -> None:
        self.place = AdapterSession(hf, framework, session_id)
        self.units = units(self.place, form)

    def read(self) -> list[Unit]:
        """Return all messages: own ones as items, those of others as neutral messages."""
        return voices(self.units.read())

    def append(self, items: Sequence[dict[str, Any]]) -> None:
        """Record items, all or none of them; they are on the medium when this returns."""
        # Encoded before the session is taken, so that refused data keeps nobody waiting.
        self.place.write(self._recording(self.units.form.words(items)))

    async def aappend(self, items: Sequence[dict[str, Any]]) -> None:
        """Do what ``append`` does, without blocking the event loop."""
        await self.place.awrite(self._recording(self.units.form.words(items)))

    def change(self, decide: Callable[[list[Unit]], Change]) -> None:
        """Retract messages and record others, decided on the current contents; the log keeps both."""

        def tell(units: list[Unit]) -> Words:
            gone, instead = decide(units)
            return [*retract(gone), *self.units.form.words(instead)]

        self.record(tell)

    def record(self, tell: Callable[[list[Unit]], Words]) -> None:
        """Record the events that ``tell`` returns for the current contents while nobody else can write."""
        self.place.write(self._recording(tell))

    async def arecord(self, tell: Callable[[list[Unit]], Words]) -> None:
        """Do what ``record`` does, without blocking the event loop."""
        await self.place.awrite(self._recording(tell))

    def _recording(self, told: Words | Callable[[list[Unit]], Words]) -> Act:
        def act(session: Session) -> list[Event]:
            recorded = session.extend(told if isinstance(told, list) else told(self.read()))
            self.units.take(recorded)
            return recorded

        return act


def missing(known: Sequence[Any], given: Sequence[Any], session_id: str) -> list[Any]:
    """Return the items of an imported conversation that are not recorded yet.

    Nothing if all of it is, also where the conversation went on since. Raises UsageError if what is
    on record is another conversation.
    """
    shared = min(len(known), len(given))
    # Two conversations under one id must not be mixed: they could not be separated again.
    if list(known[:shared]) != list(given[:shared]):
        raise UsageError(f"session {session_id} holds another conversation than is brought over")
    return list(given[shared:])


class States(LogReader):
    """Values by name that a framework saves repeatedly; each is recorded as a change of the previous one."""

    def __init__(self, place: AdapterSession, tool: str) -> None:
        self._tool = tool
        super().__init__(place)

    def _begin_again(self) -> None:
        self.values: dict[str, Any] = {}  # the values, in the order in which their names were first recorded
        self.at: dict[str, int] = {}  # the event by which the value of a name was recorded
        self._last: Any = None

    def record(self, name: str, value: Any, tell: Callable[[], Words] = list) -> None:
        """Record a value, on the medium, with the events that ``tell`` returns while nobody else can write."""

        def told() -> Words:
            state = {"name": name, "change": difference(self._last, value)}
            return [*tell(), stored(tool=self._tool, state=state)]

        self.write(told)

    def remove(self, name: str) -> None:
        """Retract a value; the log keeps it."""
        self.write(lambda: [stored(tool=self._tool, removed=name)])

    def _take(self, event: Event) -> None:
        if event.type != "frame" or event.data.get("tool") != self._tool:
            return
        if "state" in event.data:
            told = event.data["state"]
            self._last = self.values[told["name"]] = apply(self._last, told["change"])
            self.at[told["name"]] = event.seq
        elif "removed" in event.data:
            self.values.pop(event.data["removed"], None)
            self.at.pop(event.data["removed"], None)
