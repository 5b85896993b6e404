"""Named values that a framework saves again and again: each time only what changed is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.integrations._difference import apply, difference
from holdfast.integrations._place import AdapterSession
from holdfast.integrations._units import LogReader, Words
from holdfast.model import Event
from holdfast.session import Session


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

        def act(session: Session) -> list[Event]:
            with self.lock:
                self.catch_up()
                told = {"name": name, "change": difference(self._last, value)}
                recorded = session.extend([*tell(), self._frame("state", told)])
                self.catch_up()
                return recorded

        self.place.write(act)

    def remove(self, name: str) -> None:
        """Take a value back; the log keeps it."""
        self.place.write(lambda session: session.extend([self._frame("removed", name)]))
        self.catch_up()

    def _frame(self, kind: str, told: Any) -> tuple[str, dict[str, Any]]:
        return "frame", {"direction": "stored", "tool": self._tool, kind: told}

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
