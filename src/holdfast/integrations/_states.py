"""Named values that a framework saves again and again: each time only what changed is recorded."""

from __future__ import annotations

from typing import Any

from holdfast.integrations._difference import apply, difference
from holdfast.integrations._place import Place
from holdfast.integrations._reader import Reader
from holdfast.integrations._units import Words
from holdfast.model import Event

__all__ = ["States"]


class States(Reader):
    """Values by name, kept in a session. A value is a change of the one recorded before it."""

    def __init__(self, place: Place, tool: str) -> None:
        self._tool = tool
        super().__init__(place)

    def _begin_again(self) -> None:
        self._values: dict[str, Any] = {}
        self._last: Any = None

    def names(self) -> list[str]:
        """The names in the order in which they were first recorded."""
        return list(self._values)

    def newest(self, name: str) -> Any:
        """The value of a name; None if there is none."""
        return self._values.get(name)

    def record(self, name: str, value: Any, words: Words | None = None) -> None:
        """Record a value after some words; it is on the medium when this returns."""
        with self.place.writing() as session:
            with self.lock:
                self.catch_up()
                told = {"name": name, "change": difference(self._last, value)}
                session.extend([*(words or ()), self._frame("state", told)])
                self.catch_up()
            session.barrier()

    def remove(self, name: str) -> None:
        """Take a value back; the log keeps it."""
        with self.place.writing() as session:
            session.extend([self._frame("removed", name)])
            session.barrier()
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
        elif "removed" in event.data:
            self._values.pop(event.data["removed"], None)
