"""Results of idempotent tools, used again for the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.agent._permissions import args_digest
from holdfast.agent._tools import Tool
from holdfast.model import is_reference
from holdfast.security import has_mark
from holdfast.session import Session, now_ms

_RESULTS_MAX = 1000  # of one open session; beyond it the oldest go


class _Results:
    """What tools gave in one session: by name and arguments, the result and its time."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The tools whose results were read from the log; later ones are put here."""
        self.known: dict[tuple[str, str], tuple[Any, int]] = {}


_of_sessions: WeakKeyDictionary[Session, _Results] = WeakKeyDictionary()


class ResultCache:
    """What idempotent tools gave in this session, for every run of it.

    It is read from the log once for as long as the session is open, then kept up to date.
    """

    def __init__(
        self, session: Session, names: Collection[str], clock: Callable[[], int] = now_ms
    ) -> None:
        self._session = session
        self._names = frozenset(names)
        self._clock = clock

    def find(self, tool: Tool, args: dict[str, Any]) -> tuple[Any] | None:
        """The result of an earlier call, alone in a tuple; None if there is none fresh enough."""
        found = self._results().get((tool.name, args_digest(args)))
        if found is None or found[1] + tool.cache_ms <= self._clock():
            return None
        return (found[0],)

    def keep(self, tool: Tool, args: dict[str, Any], result: Any) -> None:
        """Remember a result."""
        _put(self._results(), (tool.name, args_digest(args)), (result, self._clock()))

    def _results(self) -> dict[tuple[str, str], tuple[Any, int]]:
        results = _of_sessions.get(self._session)
        if results is None:
            results = _of_sessions[self._session] = _Results()
        unread = self._names - results.names
        if unread:
            self._read(unread, results.known)
            results.names |= unread
        return results.known

    def _read(self, names: Collection[str], known: dict[tuple[str, str], tuple[Any, int]]) -> None:
        calls: dict[str, tuple[str, str]] = {}
        for event in self._session.events():
            data = event.data
            tool, params = data.get("tool"), data.get("params")
            if event.type == "tool_call" and isinstance(tool, str) and tool in names:
                if isinstance(params, dict):
                    calls[str(data.get("id"))] = (tool, args_digest(params))
            elif event.type == "tool_result" and not data.get("is_error"):
                key = calls.get(str(data.get("toolCallId")))
                result = data.get("result")
                # A result with a mark in it is not what the tool gave.
                whole = not is_reference(result) and not has_mark(bytes(event.raw))
                if key is not None and whole and not data.get("cached"):
                    _put(known, key, (result, event.timestamp))


def _put(
    known: dict[tuple[str, str], tuple[Any, int]], key: tuple[str, str], value: tuple[Any, int]
) -> None:
    known.pop(key, None)  # the newest stand last
    known[key] = value
    if len(known) > _RESULTS_MAX:
        del known[next(iter(known))]
