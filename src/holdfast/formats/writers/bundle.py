"""The portable bundle, sealed if a passphrase is given."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats._bundle import write_bundle
from holdfast.formats._view import ExportOptions, Recorded

__all__ = ["write"]


def write(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Log, snapshots, blobs and other documents with a manifest; in clear, or encrypted."""
    chunks = write_bundle(recorded.metadata.session_id, recorded.lines, recorded.documents)
    if options.passphrase is None:
        return chunks
    from holdfast.security import seal_with_passphrase

    return seal_with_passphrase(chunks, options.passphrase)
