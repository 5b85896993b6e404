"""The documents of an agent: how each is read, and how a damaged one is replaced."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from holdfast.errors import Conflict, Damaged, KeyMissing, SecurityError, StoreError, TooNew
from holdfast.replay import Approval, MemoryEntry
from holdfast.session._clock import Clock, now_ms
from holdfast.storage import MUST_NOT_EXIST, Documents

T = TypeVar("T", bound=msgspec.Struct)
AGENT, MEMORY, PERMISSIONS = "agent.json", "memory.json", "permissions.json"
PLUGINS = "plugins/"
_VERSION = 1
_TRIES_MAX = 50


class AgentDocument(msgspec.Struct, omit_defaults=True):
    """``agents/<id>/agent.json``."""

    version: int = 0
    agent_id: str | None = None
    agent_type: str | None = None
    current_session: str | None = None
    created_at: str | None = None
    last_active_at: str | None = None


class MemoryDocument(msgspec.Struct):
    """``memory.json``: what the agent remembers in all of its sessions."""

    version: int = 1
    entries: dict[str, MemoryEntry] = {}


class ApprovalsDocument(msgspec.Struct):
    """``permissions.json``: the tools that are approved for good."""

    version: int = 1
    approvals: dict[str, Approval] = {}


class PluginDocument(msgspec.Struct):
    """``plugins/<name>.json``: the lasting state of a plugin."""

    state: Any = None
    version: int | str | None = None
    name: str | None = None


_SHAPES: dict[str, type[msgspec.Struct]] = {
    AGENT: AgentDocument,
    MEMORY: MemoryDocument,
    PERMISSIONS: ApprovalsDocument,
}


def read_document(documents: Documents, name: str, shape: type[T]) -> tuple[T, str]:
    """Return a document and its etag; an empty document if there is none.

    Raises Damaged, with the name as ``document``, the bytes as ``data`` and the etag, if it cannot
    be read, and KeyMissing if it is sealed.
    """
    found = documents.get(name)
    if found is None:
        return shape(), MUST_NOT_EXIST
    try:
        return msgspec.json.decode(check_unsealed(found[0], name), type=shape), found[1]
    except (ValueError, RecursionError) as error:
        raise Damaged(
            f"{name} is damaged ({error})",
            remedy="Let `holdfast repair --agent` set it aside; the sessions themselves are whole.",
            document=name,
            shape=shape,
            data=found[0],
            etag=found[1],
        ) from error


def read_or_begin(
    documents: Documents,
    name: str,
    shape: type[T],
    tell: Callable[[str], None],
    *,
    fresh: Callable[[], T] | None = None,
    mend: bool = True,
) -> tuple[T, str]:
    """Return a document and its etag; a damaged one is reported, set aside (if ``mend``) and replaced by ``fresh``."""
    try:
        return read_document(documents, name, shape)
    except Damaged as damaged:
        made = shape() if fresh is None else fresh()
        if not mend:
            tell(f"{damaged.message}; it counts as empty")
            return made, damaged.etag
        tell(set_aside(documents, damaged, made))
        try:
            return read_document(documents, name, shape)
        except Damaged:  # it could not be set aside
            return made, damaged.etag


def set_aside(documents: Documents, damaged: Damaged, fresh: msgspec.Struct) -> str:
    """Replace a damaged document and quarantine its bytes; return what to report, also if the store refuses."""
    name = damaged.document
    aside = f"quarantine/{name.replace('/', '-')}-{crc32(damaged.data):08x}"
    try:
        documents.put(aside, damaged.data)
        documents.put(name, msgspec.json.encode(fresh), if_match=damaged.etag)
    except Conflict:
        pass  # another process has repaired it meanwhile
    except StoreError as error:
        return f"{damaged.message} and could not be set aside ({error}); it counts as empty"
    return f"{damaged.message}; it is set aside as {aside}, and begun anew"


def damaged_documents(documents: Documents) -> Iterator[Damaged]:
    """Yield the error of each unreadable document of an agent."""
    for name in documents.names():
        shape = _SHAPES.get(name, PluginDocument if name.startswith(PLUGINS) else None)
        if shape is not None:
            try:
                read_document(documents, name, shape)
            except Damaged as damaged:
                yield damaged
            except SecurityError:
                continue  # without the right key it cannot be judged


def read_agent(documents: Documents, agent_id: str) -> tuple[AgentDocument, str]:
    """Return the agent document, which names its current session, and the etag.

    Raises as ``read_document``, and TooNew.
    """
    document, etag = read_document(documents, AGENT, AgentDocument)
    if document.version > _VERSION:
        raise TooNew(f"{AGENT} of {agent_id} has version {document.version}, and this Holdfast knows {_VERSION}")
    return document, etag


def point_agent(
    documents: Documents,
    agent_id: str,
    session_id: str,
    *,
    agent_type: str | None = None,
    read: Callable[[], tuple[AgentDocument, str]] | None = None,
) -> None:
    """Make a session the agent's current one, durably; ``read`` may handle a damaged document its own way."""

    def point(document: AgentDocument) -> bool:
        if document.current_session == session_id and document.version == _VERSION:
            return False
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        document.version, document.agent_id, document.current_session = _VERSION, agent_id, session_id
        document.agent_type = agent_type or document.agent_type
        document.created_at, document.last_active_at = document.created_at or now, now
        return True

    swap(documents, AGENT, read or partial(read_agent, documents, agent_id), point)


def swap(
    documents: Documents, name: str, read: Callable[[], tuple[T, str]], change: Callable[[T], bool | None]
) -> None:
    """Change a document (unless that returns False) and put it back; retry on Conflict, and raise it in the end."""
    for _ in range(_TRIES_MAX):
        document, etag = read()
        if change(document) is False:
            return
        try:
            documents.put(name, msgspec.json.encode(document), if_match=etag)
        except Conflict:
            continue
        return
    raise Conflict(f"{name} kept changing while it was written")


class AgentMemory:
    """``agents/<id>/memory.json``: read when first asked for, written when the session is flushed.

    Many changes between two flushes cost one write. Two writers never lose each other's entries: the document is
    read again and only this writer's changes are applied to it. An unreadable document is set aside and reported;
    the memory then starts empty.
    """

    def __init__(self, documents: Documents, clock: Clock = now_ms, *, read_only: bool = False) -> None:
        self._documents = documents
        self._clock = clock
        self.read_only = read_only
        self.tell: Callable[[str], None] = lambda _what: None
        """Called with a report of a damaged document; a session that uses the memory sets it."""
        self._lock = threading.Lock()
        self._changes: dict[str, MemoryEntry | None] = {}
        """Changes not written yet: the new entry, or None for a deleted one."""

    @property
    def is_dirty(self) -> bool:
        return bool(self._changes)

    def entries(self) -> dict[str, MemoryEntry]:
        stored = self._read()[0].entries
        with self._lock:
            _put_over(stored, self._changes)
        return stored

    def set(self, data: dict[str, Any]) -> None:
        """Remember one entry, given as the data of a ``memory_set`` event."""
        now = self._clock()
        old = self.entries().get(data["key"])
        entry = MemoryEntry(
            **{name: data[name] for name in ("key", "description", "scope", "priority", "pinned")},
            raw=msgspec.Raw(msgspec.json.encode(data["value"])),
            size_bytes=data["sizeBytes"],
            created_at=now if old is None else old.created_at,
            updated_at=now,
        )
        with self._lock:
            self._changes[entry.key] = entry

    def delete(self, key: str) -> bool:
        if key not in self.entries():
            return False
        with self._lock:
            self._changes[key] = None
        return True

    def flush(self) -> None:
        """Write the pending changes. They are durable when it returns."""
        with self._lock:
            changes = dict(self._changes)
        if not changes:
            return
        swap(self._documents, MEMORY, self._read, lambda document: _put_over(document.entries, changes))
        with self._lock:
            for key, entry in changes.items():
                if self._changes.get(key) is entry:
                    del self._changes[key]

    def _read(self) -> tuple[MemoryDocument, str]:
        return read_or_begin(self._documents, MEMORY, MemoryDocument, self.tell, mend=not self.read_only)


def _put_over(entries: dict[str, MemoryEntry], changes: dict[str, MemoryEntry | None]) -> None:
    for key, entry in changes.items():
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry


def check_unsealed(data: bytes, name: str) -> bytes:
    """Return the bytes of a document.

    Raises KeyMissing if they are sealed: that is no damage, and not to be replaced.
    """
    if data.startswith(b"HFSEAL\0"):  # as security/_seal.py begins them
        raise KeyMissing(f"{name} is sealed and its key is not available", document=name)
    return data
