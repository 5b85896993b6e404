"""Big payloads back in their place, for readers that want the whole event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model import (
    BLOB_KEY,
    Event,
    blob_name,
    decode_json,
    fill_references,
    is_reference,
    read_blob,
)
from holdfast.replay import LoadBlob
from holdfast.storage import Documents

__all__ = ["blob_loader", "references", "resolve_blobs"]

_MARK = b'"$blob":'


def resolve_blobs(events: Iterable[Event], documents: Documents) -> Iterator[Event]:
    """The same events with references replaced by what they refer to.

    A payload that is missing or damaged is replaced by a text that says so.
    """
    for event in events:
        if event.is_whole:
            yield event
            continue
        raw = bytes(event.raw)
        # One byte is looked for far quicker than several, and is in few texts.
        yield _resolve(event, documents) if b"$" in raw and _MARK in raw else event


def blob_loader(documents: Documents) -> LoadBlob:
    """What gives the payload of a reference, for values that the state holds."""
    return lambda reference: _payload(reference, documents)


def _resolve(event: Event, documents: Documents) -> Event:
    whole = Event(event.type, event.seq, event.timestamp, event.raw, event.run, event.key)
    # From the recorded bytes: only there a reference and user data that looks like one differ.
    whole.__dict__["data"] = fill_references(decode_json(event.raw), blob_loader(documents))
    return whole


def _payload(reference: dict[str, Any], documents: Documents) -> Any:
    name = reference[BLOB_KEY]
    try:
        found = documents.get(f"blobs/{name}")
        # Its length is what was counted before it was asked for.
        is_whole = found is not None and len(found[0]) == reference["bytes"]
        if found is None or not is_whole or blob_name(found[0]) != name:
            return f"[{reference['bytes']} bytes that are missing or damaged]"
        return read_blob(found[0], str(reference.get("media")))
    except (HoldfastError, ValueError):
        return f"[{reference['bytes']} bytes that could not be read]"


def references(value: object) -> Iterator[str]:
    """The names of all payloads that a value refers to."""
    if is_reference(value):
        assert isinstance(value, dict)
        yield value[BLOB_KEY]
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)
