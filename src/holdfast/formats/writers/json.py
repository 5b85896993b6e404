"""Sessions for programs: one JSON document, the log's own lines, message lists, and bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.formats._own_sessions import DOCUMENT_FORMAT, DOCUMENT_VERSION
from holdfast.formats._view import ExportOptions, Recorded, listed
from holdfast.model import VERSION, Event
from holdfast.replay import Issue, as_json, unreadable
from holdfast.security import escape_json

if TYPE_CHECKING:
    from holdfast.replay import Provider

_IN_THE_LIST = ("openai", "mistral")  # the system prompt is the first message there


def write_json(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield one document: metadata, state, the conversation in neutral form, and every event."""
    found, first = recorded.recover("neutral", options.incomplete), recorded.lost_from()
    # The numbers of the events do not show a program that there were more.
    lost = [] if first is None else [Issue("unreadable", f"event {first}", unreadable(first))]
    yield b'{"format":"%b","version":%d,"writer":' % (DOCUMENT_FORMAT.encode(), DOCUMENT_VERSION)
    yield _encoded(VERSION)
    parts: dict[str, Any] = {
        "metadata": recorded.metadata,
        # Variables, memory and plugin state are in it as recorded.
        "state": msgspec.json.decode(msgspec.json.encode(recorded.state())),
        "system": found.system,
        "messages": found.messages,
        "issues": [*found.issues, *lost],
    }
    for name, value in parts.items():
        yield b',\n"%b":' % name.encode() + _encoded(value)
    events = (_encoded(_plain_event(event)) for event in recorded.events())
    yield from listed(b',\n"events":[', events, b"]}\n")


def write_jsonl(recorded: Recorded, _options: ExportOptions) -> Iterator[bytes]:
    """Yield the lines of the log byte for byte, without an incomplete last one."""
    yield from recorded.lines()


def write_bundle(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield log, snapshots, blobs and other documents with a manifest; in clear, or encrypted."""
    from holdfast.formats._archive import write_bundle as bundle  # other formats need no zip files

    chunks = bundle(recorded.metadata.session_id, recorded.lines, recorded.documents)
    if options.passphrase is None:
        return chunks
    from holdfast.security import seal_with_passphrase

    return seal_with_passphrase(chunks, options.passphrase)


def writer_of_messages(provider: Provider) -> Callable[[Recorded, ExportOptions], Iterator[bytes]]:
    """Return the writer of the conversation as a list of messages that this provider accepts."""

    def write(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
        found = recorded.recover(provider, options.incomplete)
        messages = found.messages
        if found.system and provider in _IN_THE_LIST:
            messages = [{"role": "system", "content": found.system}, *messages]
        yield from listed(b"[", map(_encoded, messages), b"]\n")

    return write


def _plain_event(event: Event) -> dict[str, Any]:
    try:
        data: Any = event.data
    except HoldfastError:
        data = None
    plain = {"seq": event.seq, "type": event.type, "timestamp": event.timestamp, "data": data}
    extra = (("run", event.run), ("key", event.key), ("more", event.more or None))
    return plain | {name: value for name, value in extra if value is not None}


def _encoded(value: Any) -> bytes:
    return escape_json(as_json(value)).encode("utf-8", "surrogatepass")
