"""Results of idempotent tools, used again for the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from holdfast.agent._permissions import args_digest
from holdfast.agent._tools import Tool
from holdfast.model import is_reference
from holdfast.security import has_mark
from holdfast.session import Session, now_ms

__all__ = ["ResultCache"]


class ResultCache:
    """What idempotent tools gave in this session; read from its log once, then kept up to date."""

    def __init__(
        self, session: Session, names: Collection[str], clock: Callable[[], int] = now_ms
    ) -> None:
        self._session = session
        self._names = frozenset(names)
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[Any, int]] | None = None

    def find(self, tool: Tool, args: dict[str, Any]) -> tuple[Any] | None:
        """The result of an earlier call, alone in a tuple; None if there is none fresh enough."""
        found = self._results().get((tool.name, args_digest(args)))
        if found is None or found[1] + tool.cache_ms <= self._clock():
            return None
        return (found[0],)

    def keep(self, tool: Tool, args: dict[str, Any], result: Any) -> None:
        """Remember a result."""
        self._results()[(tool.name, args_digest(args))] = (result, self._clock())

    def _results(self) -> dict[tuple[str, str], tuple[Any, int]]:
        if self._known is None:
            self._known = self._read() if self._session.restored else {}
        return self._known

    def _read(self) -> dict[tuple[str, str], tuple[Any, int]]:
        calls: dict[str, tuple[str, str]] = {}
        known: dict[tuple[str, str], tuple[Any, int]] = {}
        for event in self._session.events():
            data = event.data
            tool, params = data.get("tool"), data.get("params")
            if event.type == "tool_call" and isinstance(tool, str) and tool in self._names:
                if isinstance(params, dict):
                    calls[str(data.get("id"))] = (tool, args_digest(params))
            elif event.type == "tool_result" and not data.get("is_error"):
                key = calls.get(str(data.get("toolCallId")))
                result = data.get("result")
                # A result with a mark in it is not what the tool gave.
                whole = not is_reference(result) and not has_mark(bytes(event.raw))
                if key is not None and whole and not data.get("cached"):
                    known[key] = (result, event.timestamp)
        return known
