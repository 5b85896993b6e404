"""Snapshots: the folded state at a place in the log, so that opening need not fold from zero.

They are disposable. One that is damaged or not of this log is passed over for an older one.
"""

from __future__ import annotations

import zlib
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, StoreError, Tampered
from holdfast.model import Limits, Position
from holdfast.replay import State
from holdfast.storage import Documents
from holdfast.storage._zstd import zstd_module

__all__ = ["Snapshot", "Snapshots"]

_FOLDER = "snapshots/"
_SUFFIX = ".json"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_EXPANDED_BYTES_MAX = 256 << 20


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State after the events up to ``seq``, and where the log goes on from there."""

    seq: int
    offset: int
    crc: str
    taken_at: int
    state: State
    format: int = 1
    prefix: str = ""
    """The digest of the log's bytes before ``offset``, see ``_prefix.py``; empty if unknown."""
    link: str = ""

    @property
    def position(self) -> Position:
        """Where the first event after the snapshot begins."""
        return Position(self.seq + 1, self.offset, int(self.crc, 16))


class _Envelope(msgspec.Struct, frozen=True):
    """A snapshot with the checksum of its bytes."""

    snapshot: msgspec.Raw
    check: str


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_snapshot = msgspec.json.Decoder(Snapshot).decode


class Snapshots:
    """The snapshots of one session."""

    def __init__(self, documents: Documents, limits: Limits | None = None) -> None:
        self._documents = documents
        self._limits = limits or Limits()

    def save(
        self, state: bytes, position: Position, taken_at: int, prefix: tuple[str, str] = ("", "")
    ) -> int:
        """Store an encoded state as the snapshot before ``position``; its size in bytes.

        The log must have been synced up to there: a snapshot never knows more than the log.
        """
        seq = position.seq - 1
        inner = (
            b'{"format":1,"seq":%d,"offset":%d,"crc":"%08x","taken_at":%d,'
            b'"prefix":"%b","link":"%b","state":%b}'
        ) % (
            seq,
            position.offset,
            position.crc,
            taken_at,
            prefix[0].encode(),
            prefix[1].encode(),
            state,
        )
        data = b'{"snapshot":%b,"check":"%08x"}' % (inner, crc32(inner))
        if len(data) > self._limits.snapshot_compress_bytes_min:
            data = zstd_module().compress(data)
        self._documents.put(f"{_FOLDER}{seq}{_SUFFIX}", data)
        self.prune(self._limits.snapshots_kept)
        return len(data)

    def seqs(self) -> list[int]:
        """The seqs that have a snapshot, newest first."""
        names = self._documents.names(_FOLDER)
        stems = [name.removeprefix(_FOLDER).removesuffix(_SUFFIX) for name in names]
        return sorted((int(stem) for stem in stems if stem.isdecimal()), reverse=True)

    def load(self, seq: int) -> Snapshot:
        """One snapshot. Raises Damaged if it is not whole."""
        try:
            found = self._documents.get(f"{_FOLDER}{seq}{_SUFFIX}")
        except Tampered as error:
            # The log, whose every line is authenticated, says all that it could have said.
            raise Damaged(f"the snapshot at {seq} is not what was sealed", seq=seq) from error
        if found is None:
            raise Damaged(f"there is no snapshot at {seq}", seq=seq)
        try:
            envelope = _decode_envelope(_expanded(found[0]))
            if b"%08x" % crc32(envelope.snapshot) != envelope.check.encode():
                raise Damaged(f"the snapshot at {seq} is damaged", seq=seq)
            return _decode_snapshot(envelope.snapshot)
        except Damaged:
            raise
        except Exception as error:  # each decompressor has an error type of its own
            raise Damaged(f"the snapshot at {seq} is damaged: {error}", seq=seq) from error

    def newest(self, at: int | None = None) -> Snapshot | None:
        """The newest whole snapshot, or the newest at or before ``at``."""
        for seq in self.seqs():
            if at is None or seq <= at:
                try:
                    return self.load(seq)
                except Damaged:
                    continue
        return None

    def lend(self, seq: int, documents: Documents) -> None:
        """Put one beside a log that begins with the same events; durable with its next sync."""
        name = f"{_FOLDER}{seq}{_SUFFIX}"
        found = self._documents.get(name)
        if found is not None:
            documents.put(name, found[0], sync=False)

    def prune(self, keep: int) -> None:
        """Remove all but the newest. What cannot be removed does no harm."""
        for seq in self.seqs()[keep:]:
            self.drop(seq)

    def drop_after(self, seq: int) -> None:
        """Remove the snapshots that know of events after ``seq``."""
        for newer in self.seqs():
            if newer > seq:
                self.drop(newer)

    def drop_beyond(self, offset: int) -> None:
        """Remove the whole snapshots that know more than a log of this length."""
        for seq in self.seqs():
            try:
                ahead = self.load(seq).offset > offset
            except Damaged:
                continue
            if ahead:
                self.drop(seq)

    def drop_damaged(self) -> None:
        """Remove those that are not whole: they would be passed over for ever."""
        for seq in self.seqs():
            try:
                self.load(seq)
            except Damaged:
                self.drop(seq)

    def drop(self, seq: int) -> None:
        """Remove one snapshot. What cannot be removed does no harm."""
        try:
            self._documents.delete(f"{_FOLDER}{seq}{_SUFFIX}")
        except StoreError:
            return


def _expanded(data: bytes) -> bytes:
    """The JSON text, whatever it was compressed with; magic bytes decide, not names."""
    if data.startswith(_ZSTD_MAGIC):
        decompressor = zstd_module().ZstdDecompressor()
        expanded: bytes = decompressor.decompress(data, max_length=_EXPANDED_BYTES_MAX)
        if not decompressor.eof:
            raise ValueError("it is cut short or expands to too much")
        return expanded
    if data.startswith(_GZIP_MAGIC):
        inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        return inflater.decompress(data, _EXPANDED_BYTES_MAX)
    return data
