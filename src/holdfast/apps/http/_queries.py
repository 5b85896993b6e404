"""What reads: lists, searches, events, states, messages, figures. Nothing here writes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.apps.http._call import Call
from holdfast.library.answers.care import VerifiedSession
from holdfast.library.answers.events import (
    EventPage,
    EventRecord,
    MessageList,
    SearchHits,
    SnapshotList,
)
from holdfast.library.answers.sessions import SessionPage, TrashPage
from holdfast.model import SessionMetadata
from holdfast.session import resolve_blobs

_PAGE_BYTES_MAX = 16 << 20
_MEDIA = {".md": "text/markdown", ".txt": "text/plain", ".json": "application/json"}
_BYTES = "application/octet-stream"


def list_sessions(call: Call) -> SessionPage:
    """A page of sessions, newest first."""
    asked = call.query
    page = call.hf.list(
        asked.limit,
        **_narrowing(asked),
        model=asked.model,
        status=asked.status,
        parent=asked.parent,
        archived=asked.archived,
        after=asked.after,
    )
    return SessionPage(sessions=list(page), next=page.next)


def search(call: Call) -> SearchHits:
    """What was said, best first."""
    asked = call.query
    by_event = {"role": asked.role, "tool": asked.tool, "limit": asked.limit}
    return SearchHits(
        hits=call.hf.search(asked.q, asked.session_id, **_narrowing(asked), **by_event)
    )


def _narrowing(asked: Any) -> dict[str, Any]:
    """Which sessions are meant, for whatever is asked of all of them."""
    return {
        "tags": asked.tag,
        "since": asked.since,
        "until": asked.until,
        "agent_id": asked.agent_id,
    }


def look(call: Call) -> SessionMetadata:
    """One session as a list would show it."""
    return call.hf.info(call.id)


def read_events(call: Call) -> EventPage:
    """Events from a place on: as many as were asked for, or as fit into an answer."""
    asked, id = call.query, call.id
    types = asked.type or None
    found = call.hf.events(id, asked.start, types=types, limit=asked.limit + 1)
    documents = call.hf.store.documents(f"sessions/{id}")
    told: list[EventRecord] = []
    size = 0
    for event in resolve_blobs(islice(found, asked.limit + 1), documents):
        if len(told) == asked.limit or size > _PAGE_BYTES_MAX:
            return EventPage(events=told, next=event.seq)
        told.append(EventRecord.of(event))
        size += len(event.raw) if event.data is None else _size(event.data)
    return EventPage(events=told)


def state(call: Call) -> dict[str, Any]:
    """The state of a session, now or after an event."""
    found: dict[str, Any] = msgspec.json.decode(call.hf.state(call.id, call.query.at).to_json())
    return found


def messages(call: Call) -> MessageList:
    """A valid conversation, whatever the log holds."""
    asked = call.query
    found = call.hf.recover(
        call.id, asked.provider, asked.incomplete, asked.window_tokens, asked.at
    )
    plain = msgspec.to_builtins(found.messages)
    issues = [f"{issue.where}: {issue.detail}" for issue in found.issues]
    return MessageList(messages=plain, system=found.system, issues=issues)


def compare(call: Call) -> Any:
    """Two sessions side by side."""
    return call.hf.compare(call.id, call.query.other)


def snapshots(call: Call) -> SnapshotList:
    """The snapshots of a session."""
    found = call.hf.snapshots(call.id)
    return SnapshotList(snapshots=found)


def stats(call: Call) -> Any:
    """Figures of the whole space."""
    asked = call.query
    return call.hf.stats(**_narrowing(asked), model=asked.model, tz=asked.tz, by=asked.by)


def verify(call: Call) -> VerifiedSession:
    """A look at every byte."""
    return VerifiedSession.of(call.hf.verify(call.id))


def trash(call: Call) -> TrashPage:
    """What can be brought back."""
    return TrashPage.of(call.hf.trash.list())


def export(call: Call) -> Response:
    """A session in another form: a file to be saved, never a page to be shown."""
    from holdfast.formats import format_of

    asked, id = call.query, call.id
    chosen = format_of(asked.format)
    # A tool's file names a folder of the server's; it is not for clients to know which.
    found = call.hf.export(id, asked.format, at=asked.at, zone=asked.zone, cwd="/")
    data = found.encode("utf-8", "replace") if isinstance(found, str) else found
    headers = {
        "content-disposition": f'attachment; filename="{id}{chosen.suffix}"',
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return Response(data, 200, headers, media_type=_MEDIA.get(chosen.suffix, _BYTES))


def _size(data: dict[str, Any]) -> int:
    """About how long it is as JSON: only long texts count."""
    return sum(len(value) for value in data.values() if isinstance(value, str)) + 100
