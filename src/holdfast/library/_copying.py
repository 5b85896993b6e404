"""The bytes of a session as they are, for a copy that can be opened elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from holdfast.storage import Documents, Log

__all__ = ["log_lines", "own_documents"]

_BLOB = re.compile(rb'"\$blob":"([^"]+)"')
_SNAPSHOT = re.compile(r"snapshots/(\d+)\.json\Z")
# Bytes that were set aside are for the owner to look at; they may be what was redacted.
_KEPT_BACK = ("quarantine/",)


class _Numbered(msgspec.Struct):
    type: str | None = None
    seq: int | None = None


_decode = msgspec.json.Decoder(_Numbered).decode


def log_lines(log: Log, size: int, at: int | None) -> Iterator[bytes]:
    """The whole lines within the first ``size`` bytes, in chunks; up to event ``at`` if given.

    The last line of a plain log is whole without its newline, too.
    """
    rest, read, number = b"", 0, 0
    for chunk in log.read():
        part = chunk[: size - read]
        read += len(part)
        end = part.rfind(b"\n") + 1
        if not end:
            rest += part
            continue
        whole, rest = rest + part[:end], part[end:]
        if at is None:
            yield whole
            continue
        kept, number, ended = _until(whole, number, at)
        if kept:
            yield kept
        if ended:
            return
    if _is_plain(rest) and (at is None or number <= at):
        yield rest


def own_documents(
    log: Log, documents: Documents, last_seq: int, at: int | None, size: int
) -> Mapping[str, Callable[[], bytes]]:
    """The documents that belong to the log up to there, by name: snapshots, blobs, the rest."""
    names = [name for name in documents.names() if not name.startswith(_KEPT_BACK)]
    # Which payloads the lines of a sealed log name cannot be seen from outside.
    blobs = None if at is None or log.unseal is not None else _blobs(log, size, at)
    return {name: _reader(documents, name) for name in names if _belongs(name, last_seq, blobs)}


def _belongs(name: str, last_seq: int, blobs: set[str] | None) -> bool:
    snapshot = _SNAPSHOT.match(name)
    if snapshot:
        return int(snapshot[1]) <= last_seq
    return blobs is None or not name.startswith("blobs/") or name.removeprefix("blobs/") in blobs


def _reader(documents: Documents, name: str) -> Callable[[], bytes]:
    def read() -> bytes:
        found = documents.get(name)
        return b"" if found is None else found[0]

    return read


def _blobs(log: Log, size: int, at: int) -> set[str]:
    """The blobs that the lines up to there name."""
    return {
        name.decode("ascii", "replace")
        for chunk in log_lines(log, size, at)
        for name in _BLOB.findall(chunk)
    }


def _is_plain(line: bytes) -> bool:
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return found.type is not None and found.seq is None


def _until(lines: bytes, number: int, at: int) -> tuple[bytes, int, bool]:
    """The lines up to event ``at``, how many were seen, and whether that was the end."""
    kept = 0
    for line in lines.splitlines(keepends=True):
        try:
            seq = _decode(line).seq
        except (msgspec.MsgspecError, ValueError):
            seq = None
        if (number if seq is None else seq) > at:
            return lines[:kept], number, True
        number += 1
        kept += len(line)
    return lines, number, False
