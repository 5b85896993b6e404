"""Foreign bytes to events, and events to foreign bytes. Opens no file and records nothing."""

from __future__ import annotations

from holdfast.formats._bounds import Bounds
from holdfast.formats._foreign import Draft, Foreign, Reader, frame, read_time, session_id_of
from holdfast.formats._readers import READERS, reader_for, reader_of, readers
from holdfast.formats._source import File, MemoryFile, Source

__all__ = [
    "READERS",
    "Bounds",
    "Draft",
    "File",
    "Foreign",
    "MemoryFile",
    "Reader",
    "Source",
    "frame",
    "read_time",
    "reader_for",
    "reader_of",
    "readers",
    "session_id_of",
]
