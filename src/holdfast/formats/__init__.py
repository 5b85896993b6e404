"""Foreign bytes to events, and events to foreign bytes. Opens no file and records nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy

if TYPE_CHECKING:
    from holdfast.formats._archive import (
        Bundle,
        BundledSession,
        holds_bundle,
        is_bundle,
        is_zip,
        open_archive,
        read_bundle,
        write_bundle,
    )
    from holdfast.formats._file import Bounds, File, MemoryFile
    from holdfast.formats._foreign import (
        Foreign,
        ForeignDraft,
        Reader,
        fit_drafts,
        fit_value,
        frame,
        read_time,
        session_id_of,
    )
    from holdfast.formats._own_sessions import OwnSession, is_own_log, is_own_session, own_session
    from holdfast.formats._registry import (
        FORMATS,
        HOMES,
        READERS,
        Format,
        all_readers,
        claims,
        format_of,
        places_of,
        reader_for,
        reader_of,
    )
    from holdfast.formats._source import Source
    from holdfast.formats._view import ExportOptions, Recorded
    from holdfast.formats.prose import markdown_html
    from holdfast.formats.readers._values import speak

# Loaded when first asked for: most verbs import and export nothing.
__getattr__ = lazy(
    __name__,
    {
        "_archive": "Bundle BundledSession holds_bundle is_bundle is_zip open_archive read_bundle write_bundle",
        "_file": "Bounds File MemoryFile",
        "_foreign": "Foreign ForeignDraft Reader fit_drafts fit_value frame read_time session_id_of",
        "_own_sessions": "OwnSession is_own_log is_own_session own_session",
        "_registry": "FORMATS HOMES READERS Format all_readers claims format_of places_of reader_for reader_of",
        "_source": "Source",
        "_view": "ExportOptions Recorded",
        "prose": "markdown_html",
        "readers._values": "speak",
    },
)

__all__ = ["Bundle", "BundledSession", "holds_bundle", "is_bundle", "is_zip", "open_archive", "read_bundle"]
__all__ += ["Bounds", "File", "MemoryFile", "write_bundle"]
__all__ += ["Foreign", "ForeignDraft", "Reader", "fit_drafts", "fit_value", "frame", "read_time", "session_id_of"]
__all__ += ["OwnSession", "is_own_log", "is_own_session", "own_session"]
__all__ += ["FORMATS", "HOMES", "READERS", "Format", "Source", "all_readers", "claims", "format_of"]
__all__ += ["places_of", "reader_for", "reader_of"]
__all__ += ["ExportOptions", "Recorded", "markdown_html", "speak"]
