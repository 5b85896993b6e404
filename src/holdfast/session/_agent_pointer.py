"""Which session an agent goes on with: ``agents/<id>/agent.json``, compared and swapped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec

from holdfast.errors import Conflict, TooNew
from holdfast.session._agent_documents import AGENT, AgentDocument, read_document
from holdfast.storage import Documents

__all__ = ["point_agent", "read_agent"]

_VERSION = 1
_TRIES_MAX = 50


def read_agent(documents: Documents, agent_id: str) -> tuple[AgentDocument, str]:
    """The document and its etag; an empty one if there is none.

    Raises Damaged, with the bytes as ``data`` and the etag, if it cannot be read, and TooNew if a
    newer version wrote it.
    """
    document, etag = read_document(documents, AGENT, AgentDocument)
    if document.version > _VERSION:
        raise TooNew(
            f"{AGENT} of {agent_id} has version {document.version},"
            f" and this Holdfast knows {_VERSION}"
        )
    return document, etag


def point_agent(
    documents: Documents,
    agent_id: str,
    session_id: str,
    *,
    agent_type: str | None = None,
    read: Callable[[], tuple[AgentDocument, str]] | None = None,
) -> None:
    """Make a session the agent's current one; durable when it returns.

    ``read`` is for callers with a rule of their own for what is stored already.
    """
    for _ in range(_TRIES_MAX):
        document, etag = read() if read else read_agent(documents, agent_id)
        if document.current_session == session_id and document.version == _VERSION:
            return
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        document.version = _VERSION
        document.agent_id = agent_id
        document.agent_type = agent_type or document.agent_type
        document.current_session = session_id
        document.created_at = document.created_at or now
        document.last_active_at = now
        try:
            documents.put(AGENT, msgspec.json.encode(document), if_match=etag)
        except Conflict:
            continue
        return
    raise Conflict(f"{AGENT} kept changing while it was written")
