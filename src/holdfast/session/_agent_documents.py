"""The documents of an agent: how each is read, and what becomes of one that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from holdfast.errors import Conflict, Damaged, SecurityError, StoreError
from holdfast.replay import Approval, MemoryEntry
from holdfast.session._unsealed import check_unsealed
from holdfast.storage import MUST_NOT_EXIST, Documents

__all__ = [
    "AGENT",
    "MEMORY",
    "PERMISSIONS",
    "PLUGINS",
    "AgentDocument",
    "ApprovalsDocument",
    "MemoryDocument",
    "PluginDocument",
    "damaged_documents",
    "read_document",
    "read_or_begin",
    "set_aside",
]

T = TypeVar("T", bound=msgspec.Struct)
AGENT, MEMORY, PERMISSIONS = "agent.json", "memory.json", "permissions.json"
PLUGINS = "plugins/"


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
    """``permissions.json``: the tools that may be used for good."""

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
    """What a document says, and its etag; an empty one if there is none.

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
    """A document and its etag; of one that is damaged a new one, set aside and told.

    ``fresh`` makes what takes its place; without ``mend`` the damaged one is left where it is.
    """
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
    """Put a new document in the place of a damaged one, whose bytes go to quarantine; what to tell.

    What the store says against it is not raised: whoever needs the document goes on without it.
    """
    name = damaged.document
    aside = f"quarantine/{name.replace('/', '-')}-{crc32(damaged.data):08x}"
    try:
        documents.put(aside, damaged.data)
        documents.put(name, msgspec.json.encode(fresh), if_match=damaged.etag)
    except Conflict:
        pass  # somebody else has mended it meanwhile
    except StoreError as error:
        return f"{damaged.message} and could not be set aside ({error}); it counts as empty"
    return f"{damaged.message}; it is set aside as {aside}, and begun anew"


def damaged_documents(documents: Documents) -> Iterator[Damaged]:
    """Each document of an agent that cannot be read, as the error that reading it gives."""
    for name in documents.names():
        shape = _SHAPES.get(name, PluginDocument if name.startswith(PLUGINS) else None)
        if shape is not None:
            try:
                read_document(documents, name, shape)
            except Damaged as damaged:
                yield damaged
            except SecurityError:
                continue  # who has no key, or the wrong one, cannot tell
