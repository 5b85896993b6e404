"""A session's variables: a mapping whose every change is an event."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Literal, get_args

from holdfast.errors import UsageError
from holdfast.model import Limits, brief, encode_data
from holdfast.replay import LoadBlob, MemoryEntry, read_variable
from holdfast.session._agent_documents import AgentMemory
from holdfast.session._clock import random_hex

if TYPE_CHECKING:
    from holdfast.session.session import Session


class NotStoredWarning(UserWarning):
    """A variable holds a value that cannot be stored; it lasts as long as the process."""


class Variables(MutableMapping[str, Any]):
    """A mapping of variables. Reads are copies: changing one changes nothing until it is set again."""

    def __init__(self, owner: Session, load: LoadBlob, notify: Callable[..., None]) -> None:
        self._owner = owner
        self._load = load
        self._notify = notify
        self._in_memory: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._in_memory:
            return self._in_memory[name]
        return read_variable(self._owner.live_state.encoded[name], self._load, ())

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError("a variable's name is a text that is not empty")
        from holdfast.model import encode_value

        stored, lost = encode_value(value)
        if not lost:
            event = self._owner.append("variable_set", {"name": name, "value": stored})
            self._in_memory.pop(name, None)
            if self._owner.redacts and event.data.get("value") != stored:
                self._in_memory[name] = value  # the program keeps the value that it has set
            return
        self._owner.append("variable_set", {"name": name, "value": stored, "lost": lost})
        self._in_memory[name] = value
        self._notify("variable_not_stored", name=name, lost=lost)
        what = f"variable {name!r} holds what cannot be stored ({', '.join(lost)}); it is kept in memory only"
        warnings.warn(what, NotStoredWarning, stacklevel=2)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._in_memory.pop(name, None)
        if name in self._owner.live_state.encoded:
            self._owner.append("variable_delete", {"name": name})

    def __iter__(self) -> Iterator[str]:
        stored = self._owner.live_state.encoded
        yield from list(stored)
        yield from [name for name in self._in_memory if name not in stored]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._in_memory or name in self._owner.live_state.encoded

    def __repr__(self) -> str:
        return f"Variables({dict(self)!r})"

    def copy(self) -> dict[str, Any]:
        """Return all of them as a plain dict."""
        return dict(self)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Replace all variables by exactly these."""
        for name in [name for name in self if name not in values]:
            del self[name]
        self.update(values)


# A session's memory: described entries, kept with the session or with the agent.
_NO_KEY = "a memory key is a text that is not empty"
MemoryScope = Literal["session", "persistent"]
"""The owner of an entry: the session, or its agent."""
MemoryPriority = Literal["low", "normal", "high", "critical"]
"""The importance of an entry."""
_SCOPES, _PRIORITIES = get_args(MemoryScope), get_args(MemoryPriority)


class Memory:
    """Entries of scope ``session`` are events; ``persistent`` ones belong to the agent."""

    def __init__(self, owner: Session, agent: AgentMemory, load: LoadBlob) -> None:
        self._owner = owner
        self._agent = agent
        self._load = load

    def set(
        self,
        key: str,
        value: Any,
        *,
        description: str = "",
        scope: MemoryScope = "session",
        priority: MemoryPriority = "normal",
        pinned: bool = False,
    ) -> None:
        """Remember ``value`` under ``key``."""
        if not isinstance(key, str) or not key:
            raise UsageError(_NO_KEY)
        if not isinstance(description, str) or not isinstance(pinned, bool):
            raise UsageError("a description is a text, and pinned is true or false")
        _check_scope(scope)
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
            self._agent.set(self._owner.redacted(data))
            if key in self._owner.live_state.memory:
                # The session's own entry would hide the newer one.
                self._owner.append("memory_delete", {"key": key})
        else:
            self._owner.append("memory_set", data)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under ``key``: the session's if it has one, else the agent's."""
        entry = self.entry(key)
        return default if entry is None else entry.read(self._load)

    def entry(self, key: str) -> MemoryEntry | None:
        """Return the whole entry under ``key``."""
        if not isinstance(key, str):
            raise UsageError(_NO_KEY)
        found = self._owner.live_state.memory.get(key)
        if found is None:
            found = self._agent.entries().get(key)
        return None if found is None else copy(found)

    def entries(self, scope: MemoryScope | None = None) -> dict[str, MemoryEntry]:
        """Return copies of all entries by key."""
        found: dict[str, MemoryEntry] = {}
        if scope in (None, "persistent"):
            found.update(self._agent.entries())
        if scope in (None, "session"):
            memory = self._owner.live_state.memory
            found.update((key, copy(entry)) for key, entry in list(memory.items()))
        return found

    def delete(self, key: str) -> bool:
        """Delete ``key``; return whether there was one."""
        if not isinstance(key, str):
            raise UsageError(_NO_KEY)
        if known := key in self._owner.live_state.memory:
            self._owner.append("memory_delete", {"key": key})
        return self._agent.delete(key) or known

    def clear(self, scope: MemoryScope | None = None) -> int:
        """Delete every entry, or those of a scope; return how many there were."""
        if scope is not None:
            _check_scope(scope)
        cleared = 0
        if scope in (None, "session"):
            for key in list(self._owner.live_state.memory):
                self._owner.append("memory_delete", {"key": key})
                cleared += 1
        if scope in (None, "persistent"):
            cleared += sum([self._agent.delete(key) for key in self._agent.entries()])
        return cleared

    def stats(self) -> dict[str, int]:
        """Return the number of entries and their total size."""
        entries = self.entries().values()
        return {"total_entries": len(entries), "total_size_bytes": sum(entry.size_bytes for entry in entries)}

    @property
    def is_dirty(self) -> bool:
        """True if memory entries of the agent are waiting for the next flush."""
        return self._agent.is_dirty

    def flush(self) -> None:
        """Write the agent's entries; the session's own are in its log already."""
        self._agent.flush()

    def __repr__(self) -> str:
        told = ", ".join(f"{key!r}: {brief(self.get(key))}" for key in self.entries())
        return f"Memory({{{told}}})"

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.entry(key) is not None


def _check_scope(scope: str) -> None:
    if scope not in _SCOPES:
        raise UsageError(f"{scope!r} is not a scope: use one of {', '.join(_SCOPES)}")


# A session's todo list: written whole each time, the last one wins.
_STATUSES = ("pending", "in_progress", "completed")
_TODO_PRIORITIES = ("high", "medium", "low")
_ID_BYTES = 4


class Todos(Sequence[dict[str, Any]]):
    """The current list; reads are copies."""

    def __init__(self, owner: Session) -> None:
        self._owner = owner

    def write(self, todos: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Replace the list. Raises UsageError, and changes nothing, if it breaks a rule.

        At most one item is in progress, no two have the same content, each has a content, a status
        and an ``activeForm``; items without an id get one.
        """
        if not isinstance(todos, Iterable):
            raise UsageError(f"todos are a list, not {type(todos).__name__}")
        checked = [_checked(item, index) for index, item in enumerate(todos)]
        active = sum(todo["status"] == "in_progress" for todo in checked)
        if active > 1:
            raise UsageError(f"only one todo can be in progress, not {active}")
        seen: set[str] = set()
        for todo in checked:
            if (folded := todo["content"].strip().casefold()) in seen:
                raise UsageError(f"two todos have the content {todo['content']!r}")
            seen.add(folded)
        self._owner.append("todo_update", {"todos": checked})
        return self._list()

    def __len__(self) -> int:
        return len(self._owner.live_state.todos)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._list())

    def __getitem__(self, index: Any) -> Any:
        return self._list()[index]

    def __repr__(self) -> str:
        return f"Todos({self._list()!r})"

    def _list(self) -> list[dict[str, Any]]:
        return deepcopy(self._owner.live_state.todos)


def _checked(item: Any, index: int) -> dict[str, Any]:
    where = f"todo {index + 1}"
    if not isinstance(item, dict):
        raise UsageError(f"{where} is not a dict")
    content = item.get("content")
    if not isinstance(content, str) or not content.strip():
        raise UsageError(f"{where} has no content")
    status = item.get("status", "pending")
    if status not in _STATUSES:
        raise UsageError(f"{where} has the status {status!r}: use {', '.join(_STATUSES)}")
    priority = item.get("priority", "medium")
    if priority not in _TODO_PRIORITIES:
        known = ", ".join(_TODO_PRIORITIES)
        raise UsageError(f"{where} has the priority {priority!r}: use {known}")
    active = item.get("activeForm", content)
    if not isinstance(active, str) or not active.strip():
        raise UsageError(f"{where} has no activeForm")
    identity = str(item.get("id") or random_hex(_ID_BYTES))
    whole = {"content": content, "status": status, "priority": priority, "activeForm": active, "id": identity}
    return item | whole
