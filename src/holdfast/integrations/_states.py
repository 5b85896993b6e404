"""Named values that a framework saves again and again: each time only what changed is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from holdfast.integrations._place import Place
from holdfast.integrations._units import Reader, Words
from holdfast.model import Event
from holdfast.session import Session


class States(Reader):
    """Values by name, kept in a session. A value is a change of the one recorded before it."""

    def __init__(self, place: Place, tool: str) -> None:
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


# What a value has that another one lacks, in as few bytes as that takes.
#
# An event says what a framework's item says in our words; beside it stands only what those words
# do
# not carry. These forms are on disk: they may gain members, and never change.


def difference(base: Any, given: Any) -> dict[str, Any] | None:
    """What makes ``given`` of ``base``; None if they are the same."""
    if type(base) is type(given):
        if isinstance(given, dict):
            return _of_maps(base, given)
        if isinstance(given, list):
            same_length = len(base) == len(given)
            return _of_lists(base, given) if same_length else _of_growth(base, given)
        if base == given:
            return None
    return {"is": given}


def apply(base: Any, change: dict[str, Any] | None) -> Any:
    """The value that ``change`` was the difference of."""
    if change is None:
        return base
    if "is" in change:
        return change["is"]
    if "text" in change:  # what the log cannot carry as it is
        return json.loads(change["text"])
    if "keep" in change:
        return [*base[: change["keep"]], *change["add"]]
    if isinstance(base, list):
        inside = change.get("at", {})
        return [apply(value, inside.get(str(n))) for n, value in enumerate(base)]
    gone, inside = change.get("del", ()), change.get("in", {})
    kept = {name: apply(base[name], inside.get(name)) for name in base if name not in gone}
    return kept | change.get("set", {})


def _of_maps(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | None:
    inside = {
        name: change
        for name, value in given.items()
        if name in base and (change := difference(base[name], value)) is not None
    }
    parts = {
        "set": {name: value for name, value in given.items() if name not in base},
        "in": inside,
        "del": [name for name in base if name not in given],
    }
    return {name: part for name, part in parts.items() if part} or None


def _of_lists(base: list[Any], given: list[Any]) -> dict[str, Any] | None:
    pairs = enumerate(zip(base, given, strict=True))
    inside = {str(n): change for n, (a, b) in pairs if (change := difference(a, b)) is not None}
    return {"at": inside} if inside else None


def _of_growth(base: list[Any], given: list[Any]) -> dict[str, Any]:
    """For lists of different lengths: where they begin to differ, and what follows there."""
    pairs = zip(base, given, strict=False)
    kept = sum(1 for _ in takewhile(lambda pair: difference(*pair) is None, pairs))
    return {"keep": kept, "add": given[kept:]} if kept else {"is": given}
