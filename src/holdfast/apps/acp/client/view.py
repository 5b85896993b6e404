"""A session as one value: who it was with, what was said, what it was at. Folded from the log."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.errors import Damaged, DataError, TooNew
from holdfast.model import Event
from holdfast.replay import State, kinds_said

__all__ = [
    "SNAPSHOT_VERSION",
    "SessionMetrics",
    "SessionSnapshot",
    "SnapshotMessage",
    "fold_snapshot",
]

SNAPSHOT_VERSION = 2
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = zlib.MAX_WBITS | 16
_EXPANDED_BYTES_MAX = 256 << 20
_COMPRESSED_FROM = 64 << 10


class SnapshotMessage(msgspec.Struct, frozen=True):
    """One thing that was said. ``timestamp`` is Unix milliseconds."""

    role: str
    content: list[dict[str, Any]]
    timestamp: int = 0


class SessionMetrics(msgspec.Struct, frozen=True):
    """What the session used so far; ``last_activity`` is Unix milliseconds."""

    tokens_in: int = 0
    tokens_out: int = 0
    request_count: int = 0
    last_activity: int = 0


class SessionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A session at one moment. Times are Unix milliseconds."""

    session_id: str
    provider_type: str = ""
    created_at: int = 0
    updated_at: int = 0
    version: int = SNAPSHOT_VERSION
    config: dict[str, Any] = {}
    acp_session_id: str | None = None
    """The agent's own id, which is not ours."""
    messages: list[SnapshotMessage] = []
    current_task: Any = None
    metrics: SessionMetrics = SessionMetrics()
    metadata: dict[str, Any] = {}
    seq: int = -1
    """The newest event that it knows; -1 if it did not come from a log."""

    def to_json(self, *, compress_from: int = _COMPRESSED_FROM) -> bytes:
        """The snapshot as JSON; as gzip of it from so many bytes on."""
        data = msgspec.json.encode(self)
        if len(data) < compress_from:
            return data
        compressor = zlib.compressobj(wbits=_GZIP_WBITS)
        return compressor.compress(data) + compressor.flush()

    @classmethod
    def from_json(cls, data: bytes) -> SessionSnapshot:
        """What ``to_json`` wrote, or a snapshot of version 1, which is migrated.

        Raises TooNew for a later version, Damaged for what is no whole snapshot.
        """
        try:
            document = msgspec.json.decode(_expanded(data))
        except (ValueError, zlib.error, RecursionError) as error:
            raise _damaged(str(error)) from error
        if not isinstance(document, dict):
            raise _damaged("it is no object")
        try:
            return msgspec.convert(_migrated(document), cls)
        except DataError:
            raise
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise _damaged(str(error)) from error


def fold_snapshot(session_id: str, state: State, events: Iterable[Event]) -> SessionSnapshot:
    """The view of a session, from its state and its events. Raises Damaged if any is missing."""
    links = state.links.get("acp", [])
    return SessionSnapshot(
        session_id=session_id,
        provider_type=state.provider_type or "",
        created_at=state.created_at,
        updated_at=state.updated_at,
        config=state.config,
        acp_session_id=links[-1] if links else None,
        messages=_messages(session_id, events),
        current_task=state.task,
        metrics=metrics_of(state),
        metadata=state.metadata,
        seq=state.seq,
    )


def metrics_of(state: State) -> SessionMetrics:
    """Tokens as the agent reported them; a prompt is a request whether or not it reported any."""
    usage = state.usage
    return SessionMetrics(
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        request_count=max(usage.requests, state.turns),
        last_activity=state.updated_at,
    )


def _messages(session_id: str, events: Iterable[Event]) -> list[SnapshotMessage]:
    """What was said by both; of an answer that broke off, what the user saw of it."""
    found: list[SnapshotMessage] = []
    pieces: list[Event] = []
    for number, event in enumerate(events):
        if event.seq != number:
            raise Damaged(
                f"session {session_id} is damaged: event {number} cannot be read",
                session_id=session_id,
                seq=number,
            )
        if event.type == "delta" and event.data.get("kind") is None:
            pieces.append(event)
        elif event.type == "assistant":
            start = event.data.get("covers_from")
            kinds = kinds_said(event.type, event.data.get("content"))
            if isinstance(start, int) and "assistant" in kinds:
                pieces = [piece for piece in pieces if piece.seq < start]
            found += _joined(pieces)
            pieces = []
            found.append(_said(event))
        elif event.type == "user":
            found += _joined(pieces)
            pieces = []
            found.append(_said(event))
    return found + _joined(pieces)


def _joined(pieces: list[Event]) -> list[SnapshotMessage]:
    text = "".join(str(piece.data.get("content", "")) for piece in pieces)
    if not text:
        return []
    return [SnapshotMessage("assistant", _blocks(text), pieces[-1].timestamp)]


def _said(event: Event) -> SnapshotMessage:
    return SnapshotMessage(event.type, _blocks(event.data.get("content")), event.timestamp)


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": "" if content is None else str(content)}]


def _expanded(data: bytes) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
    expanded = inflater.decompress(data, _EXPANDED_BYTES_MAX)
    if not inflater.eof:
        raise ValueError("it is cut short, or expands to too much")
    return expanded


def _damaged(why: str) -> Damaged:
    return Damaged(f"the snapshot is damaged: {why}", remedy="Restore the session from its log.")


# -- earlier versions --------------------------------------------------------------------------


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _damaged(f"{version!r} is no version")
    if version > SNAPSHOT_VERSION:
        raise TooNew(
            f"the snapshot has version {version}; this Holdfast knows {SNAPSHOT_VERSION}",
            remedy="Install a newer Holdfast to read it.",
        )
    return document if version == SNAPSHOT_VERSION else _from_version_1(document)


def _from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept the agent's part below ``provider_state``, and contents as plain text."""
    part = old.get("provider_state") or {}
    part = {**part, **{name: old[name] for name in part_names(old)}}
    messages = part.get("messages") or []
    return {
        "session_id": old.get("session_id"),
        "provider_type": old.get("provider_type") or "",
        "created_at": _ms(old.get("created_at")),
        "updated_at": _ms(old.get("updated_at")),
        "version": SNAPSHOT_VERSION,
        "config": old.get("config") or {},
        "acp_session_id": part.get("acp_session_id") or None,
        "messages": [
            {
                "role": message.get("role"),
                "content": _blocks(message.get("content")),
                "timestamp": _ms(message.get("timestamp")),
            }
            for message in messages
        ],
        "current_task": part.get("current_task") or None,
        "metrics": _old_metrics(part.get("metrics") or {}),
        "metadata": old.get("metadata") or {},
    }


def part_names(old: Mapping[str, Any]) -> list[str]:
    """Which of the agent's own members a version 1 has at its top."""
    names = ("acp_session_id", "messages", "current_task", "metrics")
    return [name for name in names if name in old]


def _old_metrics(metrics: Mapping[str, Any]) -> dict[str, int]:
    """Their names were those of Go fields on disk, and of JSON in the design."""

    def read(go: str, plain: str) -> Any:
        return metrics.get(go, metrics.get(plain))

    return {
        "tokens_in": int(read("TokensIn", "tokens_in") or 0),
        "tokens_out": int(read("TokensOut", "tokens_out") or 0),
        "request_count": int(read("RequestCount", "request_count") or 0),
        "last_activity": _ms(read("LastActivityAt", "last_activity")),
    }


def _ms(when: Any) -> int:
    if isinstance(when, str) and when:
        moment = dt.datetime.fromisoformat(when)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return max(0, int(moment.timestamp() * 1000))
    return when if isinstance(when, int) else 0
