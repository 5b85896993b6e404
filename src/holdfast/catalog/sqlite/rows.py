"""Rows of the SQLite index as the sessions that they are of, each verified by its checksum."""

from __future__ import annotations

from operator import attrgetter
from typing import Any
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._index import Row, Trace
from holdfast.model import SessionMetadata

__all__ = ["read_row", "read_rows", "read_whole"]

_decode_meta = msgspec.json.Decoder(SessionMetadata).decode
_decode_all = msgspec.json.Decoder(list[SessionMetadata]).decode
_decode_trace = msgspec.json.Decoder(Trace).decode
_id_of = attrgetter("session_id")


def read_row(id: Any, data: Any, crc: Any) -> Row:
    """What a list shows of a session, from the columns of that name.

    Raises IndexDamaged if it is not as written.
    """
    if type(data) is bytes and crc32(data) == crc:
        meta = _decode_meta(data)
        if meta.session_id == id:
            return Row(meta, Trace())
    raise IndexDamaged("the row of a session")


def read_rows(
    ids: tuple[Any, ...], data: tuple[Any, ...], crcs: tuple[Any, ...]
) -> list[SessionMetadata]:
    """What a list shows of many sessions at once."""
    try:
        if tuple(map(crc32, data)) != crcs:
            raise IndexDamaged("the rows of sessions")
        found = _decode_all(b"[%b]" % b",".join(data))
    except (TypeError, ValueError) as error:
        raise IndexDamaged("the rows of sessions") from error
    if tuple(map(_id_of, found)) != ids:
        raise IndexDamaged("the rows of sessions")
    return found


def read_whole(id: Any, data: Any, crc: Any, trace: Any, trace_crc: Any) -> Row:
    """What a list shows of a session, with what the index knows of its log."""
    if type(trace) is bytes and crc32(trace) == trace_crc:
        return Row(read_row(id, data, crc).meta, _decode_trace(trace))
    raise IndexDamaged("the row of a session")
