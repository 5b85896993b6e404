"""A session's memory: described entries, kept with the session or with the agent."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model import Limits, encode_data
from holdfast.replay import LoadBlob, MemoryEntry
from holdfast.session._agent_memory import AgentMemory
from holdfast.session._variables import Owner

if TYPE_CHECKING:
    from holdfast.session._redacting import Redacting

__all__ = ["Memory"]

_NO_KEY = "a memory key is a text that is not empty"
_SCOPES = ("session", "persistent")
_PRIORITIES = ("low", "normal", "high", "critical")


class Memory:
    """Entries of scope ``session`` are events; ``persistent`` ones belong to the agent."""

    def __init__(
        self,
        owner: Owner,
        agent: AgentMemory,
        load: LoadBlob | None = None,
        redacting: Redacting | None = None,
    ) -> None:
        self._owner = owner
        self._agent = agent
        self._load = load
        self._redacting = redacting

    def set(
        self,
        key: str,
        value: Any,
        *,
        description: str = "",
        scope: str = "session",
        priority: str = "normal",
        pinned: bool = False,
    ) -> None:
        """Remember ``value`` under ``key``."""
        if not isinstance(key, str) or not key:
            raise UsageError(_NO_KEY)
        if not isinstance(description, str) or not isinstance(pinned, bool):
            raise UsageError("a description is a text, and pinned is true or false")
        if scope not in _SCOPES:
            raise UsageError(f"{scope!r} is not a scope: use one of {', '.join(_SCOPES)}")
        if priority not in _PRIORITIES:
            raise UsageError(f"{priority!r} is not a priority: use {', '.join(_PRIORITIES)}")
        data = {
            "key": key,
            "value": value,
            "description": description,
            "scope": scope,
            "priority": priority,
            "pinned": pinned,
            "sizeBytes": len(encode_data({"value": value}, Limits())) - len('{"value":}'),
        }
        if scope == "persistent":
            kept = data if self._redacting is None else self._redacting.value(data)
            self._agent.set(kept)
            if key in self._owner.live_state.memory:
                # The session's own entry would hide the newer one.
                self._owner.append("memory_delete", {"key": key})
        else:
            self._owner.append("memory_set", data)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under ``key``: of the session if it has one, else of the agent."""
        entry = self.entry(key)
        return default if entry is None else entry.read(self._load)

    def entry(self, key: str) -> MemoryEntry | None:
        """The whole entry under ``key``."""
        if not isinstance(key, str):
            raise UsageError(_NO_KEY)
        found = self._owner.live_state.memory.get(key)
        if found is None:
            found = self._agent.entries().get(key)
        return None if found is None else copy(found)

    def entries(self, scope: str | None = None) -> dict[str, MemoryEntry]:
        """All entries by key; copies."""
        found: dict[str, MemoryEntry] = {}
        if scope in (None, "persistent"):
            found.update(self._agent.entries())
        if scope in (None, "session"):
            memory = self._owner.live_state.memory
            found.update((key, copy(entry)) for key, entry in list(memory.items()))
        return found

    def delete(self, key: str) -> bool:
        """Forget ``key``; whether there was one."""
        if not isinstance(key, str):
            raise UsageError(_NO_KEY)
        known = False
        if key in self._owner.live_state.memory:
            self._owner.append("memory_delete", {"key": key})
            known = True
        return self._agent.delete(key) or known

    def clear(self, scope: str | None = None) -> int:
        """Forget every entry, or those of a scope; how many there were."""
        if scope is not None and scope not in _SCOPES:
            raise UsageError(f"{scope!r} is not a scope: use one of {', '.join(_SCOPES)}")
        cleared = 0
        if scope in (None, "session"):
            for key in list(self._owner.live_state.memory):
                self._owner.append("memory_delete", {"key": key})
                cleared += 1
        if scope in (None, "persistent"):
            cleared += sum([self._agent.delete(key) for key in self._agent.entries()])
        return cleared

    def stats(self) -> dict[str, int]:
        """How many entries there are and how large they are together."""
        entries = self.entries().values()
        return {
            "total_entries": len(entries),
            "total_size_bytes": sum(entry.size_bytes for entry in entries),
        }

    @property
    def is_dirty(self) -> bool:
        """Whether entries of the agent are waiting for the next flush."""
        return self._agent.is_dirty

    def flush(self) -> None:
        """Write the agent's entries; the session's own are in its log already."""
        if self._agent.is_dirty:
            self._agent.flush()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.entry(key) is not None
