"""Pure data: the line format, events, metadata, ids, limits and notices.

Nothing here touches a file, a clock or a source of randomness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy
from holdfast.model._data import (
    BLOB_KEY,
    LazyDecoder,
    blob_name,
    decode_json,
    encode_data,
    encode_with_blobs,
    fill_references,
    has_blob,
    has_blob_at,
    has_marked_keys,
    is_reference,
    named_blobs,
    read_blob,
    restore_keys,
)
from holdfast.model._event import STATUSES, Event, Notice, SessionMetadata, Status, one_by_one
from holdfast.model._ids import RANDOM_BYTES, check_id, fit_id, fold_id, is_id, make_id
from holdfast.model._limits import FORMAT_VERSION, Limits
from holdfast.model._line import (
    START,
    Position,
    checksum_after,
    cut_body,
    encode_event_line,
    encode_line,
    encode_plain_line,
    encode_sealed_line,
    is_as_written,
    line_body,
    line_size,
    move_line,
    running_checksum,
    type_bytes,
    verified_blocks,
)
from holdfast.model._line import TRAILER as LINE_END_BYTES
from holdfast.model._readable import brief, html_table, struct_html, struct_repr
from holdfast.model._reader import (
    BEFORE_ALL,
    SEAL_END,
    SEALED_END_BYTES,
    AnyLine,
    Gap,
    LineReader,
    Unseal,
    begins_line,
    cut_line,
    end_of,
    open_line,
    read_events,
    read_line,
    sealed_end,
    verified_line,
    verified_line_at,
)
from holdfast.model._version import VERSION

if TYPE_CHECKING:
    from holdfast.model._bodies import BODIES
    from holdfast.model._maker import line_maker, make_line
    from holdfast.model._salvage import Salvage, salvage
    from holdfast.model._values import Record, decode_value, encode_value

# Loaded when first asked for: most programs never need them.
__getattr__ = lazy(
    __name__,
    {
        "_bodies": "BODIES",
        "_maker": "line_maker make_line",
        "_salvage": "Salvage salvage",
        "_values": "Record decode_value encode_value",
    },
)

__all__ = ["BLOB_KEY", "LazyDecoder", "blob_name", "decode_json", "encode_data", "encode_with_blobs"]
__all__ += [
    "fill_references",
    "has_blob",
    "has_blob_at",
    "has_marked_keys",
    "is_reference",
    "named_blobs",
    "read_blob",
    "restore_keys",
]
__all__ += ["STATUSES", "Event", "Notice", "SessionMetadata", "Status", "one_by_one"]
__all__ += ["FORMAT_VERSION", "RANDOM_BYTES", "Limits", "check_id", "fit_id", "fold_id", "is_id", "make_id"]
__all__ += ["LINE_END_BYTES", "START", "Position", "checksum_after", "cut_body", "encode_event_line", "encode_line"]
__all__ += ["encode_plain_line", "encode_sealed_line", "is_as_written", "line_body", "line_size", "move_line"]
__all__ += ["running_checksum", "type_bytes", "verified_blocks"]
__all__ += ["BEFORE_ALL", "SEALED_END_BYTES", "SEAL_END", "AnyLine", "LineReader", "Unseal", "begins_line"]
__all__ += ["cut_line", "end_of", "open_line", "read_events", "read_line", "sealed_end"]
__all__ += ["BODIES", "VERSION", "line_maker", "make_line", "verified_line", "verified_line_at"]
__all__ += ["brief", "html_table", "struct_html", "struct_repr"]
__all__ += ["Gap", "Record", "Salvage", "decode_value", "encode_value", "salvage"]
