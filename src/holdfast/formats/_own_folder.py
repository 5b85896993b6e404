"""A session of ours as it lies in a store: a folder with its log and what is kept beside it."""

from __future__ import annotations

from typing import Any

from holdfast.errors import HoldfastError, InvalidData
from holdfast.formats._bounds import decode_document
from holdfast.formats._foreign import session_id_of
from holdfast.formats._source import Source
from holdfast.model import is_id

__all__ = ["OwnFolder", "is_own_folder", "is_own_log"]

_LOGS = ("events.jsonl", "events.jsonl.zst")
_BASE = "base.json"
_OWN = "own.jsonl"
_PARTS_MAX = 16
_KEPT = ("blobs/", "snapshots/")


class OwnFolder:
    """The session in such a folder: its bytes, as a bundle would have them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.id = source.name if is_id(source.name) else session_id_of("holdfast", source.name)
        self.documents = [name for name in source.names() if name.startswith(_KEPT)]

    def log(self) -> bytes:
        """The bytes of the log up to the last whole line. Raises InvalidData and TooLarge."""
        plain = next((name for name in _LOGS if self._source.has(name)), None)
        most = self._source.bounds.archive_bytes_max
        data = self._branch() if plain is None else self._source.read(plain, most)
        return data[: data.rfind(b"\n") + 1]

    def document(self, name: str) -> bytes:
        """The bytes of a document of that name."""
        return self._source.raw(name)

    def _branch(self) -> bytes:
        """What is inherited from other logs, and what came after it."""
        sizes = _sizes(self._source)
        parts = []
        for number, size in enumerate(sizes, 1):
            part = self._source.raw("base.jsonl" if number == 1 else f"base.{number}.jsonl")[:size]
            if len(part) < size:
                raise InvalidData("a part of the log that this session was forked from is missing")
            parts.append(part)
        if self._source.has(_OWN):
            parts.append(self._source.raw(_OWN))
        return b"".join(parts)


def is_own_folder(source: Source) -> bool:
    """Whether a folder holds a session of ours."""
    if source.is_file:
        return False
    names = [name for name in _LOGS if source.has(name)]
    if names:
        if not source.head(names[0]) and source.size(names[0]):
            source.pass_over(names[0], "the log is compressed, and damaged at its beginning")
        return _begins(source, names[0])
    return source.has(_BASE) and source.has("base.jsonl") and _begins(source, "base.jsonl")


def is_own_log(source: Source) -> bool:
    """Whether a single file is the log in such a folder."""
    return source.is_file and source.name in _LOGS and _begins(source, source.name)


def _begins(source: Source, name: str) -> bool:
    """Whether a log begins as ours do. Other tools number their lines, but do not sum them up."""
    line = source.head(name).partition(b"\n")[0]
    try:
        value = decode_document(line, source.bounds)
    except HoldfastError:
        return False
    return (
        isinstance(value, dict)
        and value.get("type") == "session_start"
        and value.get("seq") == 0
        and "crc" in value
        and isinstance(_log_id(value), str)
    )


def _log_id(value: dict[str, Any]) -> Any:
    data = value.get("data")
    return data.get("log") if isinstance(data, dict) else None


def _sizes(source: Source) -> list[int]:
    value = source.json(_BASE)
    sizes = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(sizes, list) or len(sizes) > _PARTS_MAX:
        raise InvalidData(f"{_BASE} does not say what the session was forked from")
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise InvalidData(f"{_BASE} does not say how much of another log belongs to the session")
    return sizes
