"""A log without its secrets: the same events, each in its place, with marks instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model import (
    BEFORE_ALL,
    BLOB_KEY,
    SEAL_END,
    Event,
    Limits,
    decode_json,
    encode_data,
    encode_line,
    encode_sealed_line,
    encode_with_blobs,
    is_reference,
    line_body,
)
from holdfast.security import ends_stream

if TYPE_CHECKING:
    from holdfast.security import Finding, Redactor, Sealer
    from holdfast.security._redact_scan import Span

__all__ = ["RedactedLog", "referenced", "without_secrets"]

_BLOB_MARK = b'"$blob":'
# What a log may have; what is in it is not measured again.
_LIMITS = Limits(message_bytes_max=1 << 40, session_bytes_max=1 << 50)
_Stream = tuple[str | None, str]
_Piece = tuple[int, dict[str, Any]]  # where it is in the log, and all it says


class RedactedLog(msgspec.Struct):
    """What became of the events of a log."""

    events: list[Event]
    blobs: dict[str, bytes]
    """Payloads that are new, by name."""
    found: Counter[str]
    """How many secrets each rule found."""
    seqs: set[int]
    """The events that are not as they were."""
    unscanned: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything had to be replaced."""
        return bool(self.seqs)

    def lines(self, sealer: Sealer | None = None) -> Iterator[bytes]:
        """The log, each line with the checksum that its place gives it; sealed if it was."""
        crc, before = 0, BEFORE_ALL
        for event in self.events:
            body = line_body(event)
            if sealer is None:
                line, crc = encode_line(event.seq, body, crc)
            else:
                sealed = sealer.seal(event.seq, body, before)
                before = sealed[-SEAL_END:]
                line, crc = encode_sealed_line(event.seq, sealed, crc)
            yield line


def without_secrets(
    events: Iterable[Event], whole: Iterable[Event], redactor: Redactor
) -> RedactedLog:
    """The events with marks in the place of secrets.

    ``whole`` are the same events with their big payloads in place. A secret that was streamed in
    pieces is found across them, and across what came between them.
    """
    done = RedactedLog([], {}, Counter(), set())
    streams: dict[_Stream, list[list[_Piece]]] = {}
    for event, full in zip(events, whole, strict=True):
        content = full.data.get("content") if event.type == "delta" else None
        if isinstance(content, str):
            kind = "thinking" if full.data.get("kind") == "thinking" else "text"
            parts = streams.setdefault((event.run, kind), [[]])
            parts[-1].append((len(done.events), full.data))
            done.events.append(event)
            continue
        for stream, parts in list(streams.items()):
            if ends_stream(stream[0], event.type, event.run):
                _redact_stream(done, streams.pop(stream), redactor)
            elif parts[-1]:
                parts.append([])
        data, found, unscanned = redactor.data(event.type, full.data)
        done.unscanned += unscanned
        _put(done, event, None if data is full.data else data, found)
    for parts in streams.values():
        _redact_stream(done, parts, redactor)
    return done


def _put(
    done: RedactedLog, event: Event, data: dict[str, Any] | None, found: list[Finding]
) -> None:
    if data is not None:
        event = _with_data(done, event, data)
        done.seqs.add(event.seq)
        done.found.update(one.rule for one in found)
    done.events.append(event)


def _with_data(done: RedactedLog, event: Event, data: dict[str, Any]) -> Event:
    raw = encode_data(data, _LIMITS)
    if len(raw) > _LIMITS.blob_bytes_min:
        raw, blobs = encode_with_blobs(data, _LIMITS)
        done.blobs.update(blobs)
    return Event(event.type, event.seq, event.timestamp, raw, event.run, event.key, event.more)


def _redact_stream(done: RedactedLog, parts: list[list[_Piece]], redactor: Redactor) -> None:
    """Look at the pieces of a stream: at those in a row, and at all of them as one text."""
    told = [piece for part in parts for piece in _redact_pieces(done, part, redactor)]
    if len(parts) > 1:
        _redact_pieces(done, told, redactor)


def _redact_pieces(done: RedactedLog, pieces: list[_Piece], redactor: Redactor) -> list[_Piece]:
    """The pieces of one text, as they are without its secrets."""
    spans = redactor.spans("".join(piece["content"] for _, piece in pieces))
    at, told = 0, []
    for place, piece in pieces:
        text = piece["content"]
        said, found = _piece(redactor, text, at, spans)
        rest = {name: item for name, item in piece.items() if name != "content"}
        others = redactor.data("delta", rest)
        found = [*found, *others.found]
        data = piece
        if found or said != text:
            data = {**others.data, "content": said}
            event = _with_data(done, done.events[place], data)
            done.events[place] = event
            done.seqs.add(event.seq)
            done.found.update(one.rule for one in found)
        told.append((place, data))
        at += len(text)
    return told


def _piece(redactor: Redactor, text: str, at: int, spans: list[Span]) -> tuple[str, list[Finding]]:
    """One piece: the mark stands where a secret begins, and what goes on in the next is gone."""
    mine = [span for span in spans if span.start < at + len(text) and span.stop > at]
    said, found, done = "", [], 0
    for span in mine:
        start, stop = max(span.start - at, 0), min(span.stop - at, len(text))
        said += text[done:start]
        if span.start >= at:
            mark, one = redactor.replaced(
                text[start:stop], [span._replace(start=0, stop=stop - start)]
            )
            said += mark
            found += one
        done = stop
    return said + text[done:], found


def referenced(events: Iterable[Event]) -> set[str]:
    """The names of the payloads that events refer to."""
    found: set[str] = set()
    for event in events:
        if _BLOB_MARK in bytes(event.raw):
            found.update(_names(decode_json(event.raw)))
    return found


def _names(value: Any) -> Iterator[str]:
    if is_reference(value):
        yield value[BLOB_KEY]
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names(item)
