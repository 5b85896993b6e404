"""Snapshots: the folded state at a place in the log, so that opening need not fold from zero.

They are disposable. One that is damaged or not of this log is passed over for an older one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, StoreError, Tampered
from holdfast.model import Limits, Position
from holdfast.replay import State
from holdfast.storage import Documents, zstd_module

if TYPE_CHECKING:
    from holdfast.storage import Log


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
    """The digest of the log's bytes before ``offset``, see ``PrefixChain``; empty if unknown."""
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
        found = []
        for name in self._documents.names(_FOLDER):
            stem = name.removeprefix(_FOLDER).removesuffix(_SUFFIX)
            if stem.isdecimal():
                found.append(int(stem))
        return sorted(found, reverse=True)

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


# Sealed prefixes: a digest of a log's first bytes that goes on without reading them again.
#
# The log is cut into blocks of 1 MiB. ``link`` k is the SHA-256 of link k-1 and block k-1; the
# digest
# at an offset is that of the link of its block and the bytes between. A snapshot keeps both, so
# that
# the next one reads a block and what is new, and whoever verifies reads the log once.


BLOCK_BYTES = 1 << 20


def _linked(link: bytes, data: bytes) -> bytes:
    from hashlib import sha256  # a program that only records takes no digest

    return sha256(link + data).digest()


class PrefixChain:
    """The digests at some places of a log that is read from its beginning, in chunks."""

    def __init__(self, offsets: Iterable[int] = (), *, link: bytes = b"", start: int = 0) -> None:
        self._offsets = sorted(set(offsets), reverse=True)
        self.link = link
        """What stands for all blocks before the one that is being read."""
        self._at = start
        self._waiting = bytearray()
        self.digests: dict[int, str] = {}
        """The digest at each of the places that were reached, by offset."""

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the log."""
        view = memoryview(chunk)
        while view:
            room = BLOCK_BYTES - len(self._waiting)
            if self._offsets:
                room = min(room, self._offsets[-1] - self._at)
            self._waiting += view[:room]
            self._at += len(view[:room])
            view = view[room:]
            self._settle()

    def digest_here(self) -> str:
        """The digest of everything that was read."""
        return _linked(self.link, bytes(self._waiting)).hex()

    def _settle(self) -> None:
        if len(self._waiting) == BLOCK_BYTES:
            self.link = _linked(self.link, bytes(self._waiting))
            self._waiting.clear()
        if self._offsets and self._offsets[-1] == self._at:
            self.digests[self._offsets.pop()] = self.digest_here()


def prefix_digest(log: Log, offset: int, link: str, linked: int) -> tuple[str, str]:
    """The digest of a log's first ``offset`` bytes, and the link of the block that they end in.

    ``link`` is one of an earlier place, for its first ``linked`` bytes; empty for none.
    """
    start = linked // BLOCK_BYTES * BLOCK_BYTES if link else 0
    chain = PrefixChain([offset], link=bytes.fromhex(link), start=start)
    left = offset - start
    for chunk in log.read(start) if left else ():
        chain.feed(chunk[:left])
        left -= min(left, len(chunk))
        if not left:
            break
    return chain.digests.get(offset, ""), chain.link.hex()
