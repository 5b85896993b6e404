"""Single sessions of ours: a folder of a store, the lines of a log, or a JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.errors import InvalidData
from holdfast.formats._file import decode_or_none
from holdfast.formats._foreign import check_version, session_id_of
from holdfast.formats._source import Source
from holdfast.model import Event, Limits, encode_data, encode_line, encode_with_blobs, is_id
from holdfast.model import line_body as body_of

DOCUMENT_FORMAT = "holdfast-session"
DOCUMENT_VERSION = 1

_LOGS = ("events.jsonl", "events.jsonl.zst")
_BASE = "base.json"
_OWN = "own.jsonl"
_PARTS_MAX = 16
_BLOBS = "blobs/"
_KEPT = (_BLOBS, "snapshots/")
_ENDINGS = (".zst", ".gz", ".jsonl", ".json")
# What was recorded once is not measured again; only the threshold for payloads counts.
_LIMITS = Limits(message_bytes_max=1 << 40, session_bytes_max=1 << 50)


class OwnLog:
    """The session in such a folder, or in a file that holds only its log, as bytes like those in a bundle."""

    def __init__(self, source: Source) -> None:
        self._source = source
        name = source.name
        for ending in _ENDINGS if source.is_file else ():
            name = name.removesuffix(ending)
        self.id = _id_for(name)
        self.documents = [name for name in source.names() if name.startswith(_KEPT)]

    def log(self) -> bytes:
        """Return the bytes of the log up to the last complete line. Raises InvalidData and TooLarge."""
        source = self._source
        plain = source.name if source.is_file else next((name for name in _LOGS if source.has(name)), None)
        data = self._branch() if plain is None else source.read(plain, source.bounds.archive_bytes_max)
        return data[: data.rfind(b"\n") + 1]

    def document(self, name: str) -> bytes:
        return self._source.raw(name)

    def _branch(self) -> bytes:
        """Return the inherited bytes, and those after them."""
        value = self._source.json(_BASE)
        sizes = value.get("bytes") if isinstance(value, dict) else None
        if not isinstance(sizes, list) or len(sizes) > _PARTS_MAX:
            raise InvalidData(f"{_BASE} does not say what the session was forked from")
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise InvalidData(f"{_BASE} does not say how much of another log belongs to the session")
        parts = []
        for number, size in enumerate(sizes, 1):
            part = self._source.raw("base.jsonl" if number == 1 else f"base.{number}.jsonl")[:size]
            if len(part) < size:
                raise InvalidData("a part of the log that this session was forked from is missing")
            parts.append(part)
        if self._source.has(_OWN):
            parts.append(self._source.raw(_OWN))
        return b"".join(parts)


class _WrittenEvent(msgspec.Struct):
    """An event in a document."""

    seq: int
    type: str
    timestamp: int
    data: dict[str, Any] | None
    run: str | None = None
    key: str | None = None
    more: bool = False


class OwnDocument:
    """The session in a JSON document, from which the log is rebuilt. Raises TooNew, or InvalidData if it is none."""

    def __init__(self, source: Source) -> None:
        value = source.json(source.name)
        check_version(source.name, "Holdfast", value.get("version"), DOCUMENT_VERSION)
        about = value.get("metadata")
        named = about.get("session_id") if isinstance(about, dict) else None
        self.id = _id_for(named if isinstance(named, str) else source.name)
        self._payloads: dict[str, bytes] = {}
        try:
            written = msgspec.convert(value.get("events"), list[_WrittenEvent])
        except msgspec.ValidationError as error:
            raise InvalidData(f"{source.name} is no whole session: {error}") from error
        self._lines = list(self._encoded(written))
        self.documents = sorted(self._payloads)

    def log(self) -> bytes:
        return b"".join(self._lines)

    def document(self, name: str) -> bytes:
        return self._payloads[name]

    def _encoded(self, written: list[_WrittenEvent]) -> Iterator[bytes]:
        crc = 0
        for one in written:
            data = one.data or {}
            # Written as it was recorded, so that the checksums of the lines come out the same.
            raw = encode_data(data, _LIMITS)
            if len(raw) > _LIMITS.blob_bytes_min:
                raw, blobs = encode_with_blobs(data, _LIMITS)
                self._payloads |= {f"{_BLOBS}{name}": payload for name, payload in blobs.items()}
            event = Event(one.type, one.seq, one.timestamp, raw, one.run, one.key, one.more)
            line, crc = encode_line(one.seq, body_of(event), crc)
            yield line


OwnSession = OwnLog | OwnDocument


def is_own_session(source: Source) -> bool:
    """Return whether a source is a single session of ours, by its content."""
    if not source.is_file:
        return _is_folder(source)
    if _begins(source, source.name):
        return True
    value = source.glimpse(source.name)
    if value is None:  # not a document, or one that was cut short since
        return source.head(source.name).startswith(b'{"format":"%b"' % DOCUMENT_FORMAT.encode())
    return isinstance(value, dict) and value.get("format") == DOCUMENT_FORMAT


def own_session(source: Source) -> OwnSession:
    """Return the session of ours in a source. Raises TooNew, InvalidData and TooLarge."""
    is_log = not source.is_file or _begins(source, source.name)
    return OwnLog(source) if is_log else OwnDocument(source)


def _id_for(name: str) -> str:
    return name if is_id(name) else session_id_of("holdfast", name)


def _is_folder(source: Source) -> bool:
    """Return whether a folder holds a session of ours."""
    names = [name for name in _LOGS if source.has(name)]
    if names:
        # An archived log that does not expand is still ours, and must not be ignored.
        if not source.head(names[0]) and source.size(names[0]):
            source.pass_over(names[0], "the log is compressed, and damaged at its beginning")
        return _begins(source, names[0])
    return source.has(_BASE) and source.has("base.jsonl") and _begins(source, "base.jsonl")


def is_own_log(source: Source) -> bool:
    """Return whether a single file is the log in such a folder."""
    return source.is_file and source.name in _LOGS and _begins(source, source.name)


def _begins(source: Source, name: str) -> bool:
    """Return whether a log begins like ours. Other tools number their lines, but have no checksums."""
    match decode_or_none(source.head(name).partition(b"\n")[0], source.bounds):
        case {"type": "session_start", "seq": 0, "crc": _, "data": {"log": str()}}:
            return True
    return False
