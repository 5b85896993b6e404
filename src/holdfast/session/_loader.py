"""Snapshots: the folded state at a place in the log, so that opening need not fold from zero.

They are disposable. One that is damaged or belongs to another log is skipped for an older one.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, SecurityError, StoreError, Tampered, TooNew
from holdfast.model import START, Event, Gap, LazyDecoder, Limits, LineReader, Position, is_as_written
from holdfast.replay import Fold, State, check_format
from holdfast.session.reader import chunks_after, fits, reader_at, whole_end
from holdfast.storage import Documents, Log, is_at_work, zstd_module

_FOLDER = "snapshots/"
_SUFFIX = ".json"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_EXPANDED_BYTES_MAX = 256 << 20


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State after the events up to ``seq``, and the place in the log after them."""

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
        """The position of the first event after the snapshot."""
        return Position(self.seq + 1, self.offset, int(self.crc, 16))


class _Envelope(msgspec.Struct, frozen=True):
    """A snapshot with the checksum of its bytes."""

    snapshot: msgspec.Raw
    check: str


_envelope_decoder = LazyDecoder(_Envelope)
_snapshot_decoder = LazyDecoder(Snapshot)


class Snapshots:
    """The snapshots of one session."""

    def __init__(self, documents: Documents, limits: Limits | None = None) -> None:
        self._documents = documents
        self._limits = limits or Limits()

    def save(self, state: bytes, position: Position, taken_at: int, prefix: tuple[str, str] = ("", "")) -> int:
        """Store an encoded state as the snapshot before ``position``, where the log is synced; return its size."""
        seq = position.seq - 1
        inner = (
            b'{"format":1,"seq":%d,"offset":%d,"crc":"%08x","taken_at":%d,"prefix":"%b","link":"%b","state":%b}'
        ) % (seq, position.offset, position.crc, taken_at, prefix[0].encode(), prefix[1].encode(), state)
        data = b'{"snapshot":%b,"check":"%08x"}' % (inner, crc32(inner))
        if len(data) > self._limits.snapshot_compress_bytes_min:
            data = zstd_module().compress(data)
        self._documents.put(f"{_FOLDER}{seq}{_SUFFIX}", data)
        for old in self.seqs()[self._limits.snapshots_kept :]:
            self.drop(old)
        return len(data)

    def seqs(self) -> list[int]:
        """Return the seqs that have a snapshot, newest first."""
        found = []
        for name in self._documents.names(_FOLDER):  # no comprehension: every opening comes here, and calls count
            stem = name.removeprefix(_FOLDER).removesuffix(_SUFFIX)
            if stem.isdecimal():
                found.append(int(stem))
        return sorted(found, reverse=True)

    def load(self, seq: int) -> Snapshot:
        """Return one snapshot. Raises Damaged if it is not intact."""
        try:
            found = self._documents.get(f"{_FOLDER}{seq}{_SUFFIX}")
        except Tampered as error:
            # The log, whose every line is authenticated, has all that the snapshot had.
            raise Damaged(f"the snapshot at {seq} is not what was sealed", seq=seq) from error
        if found is None:
            raise Damaged(f"there is no snapshot at {seq}", seq=seq)
        try:
            envelope = _envelope_decoder.decode(_expanded(found[0]))
            if b"%08x" % crc32(envelope.snapshot) == envelope.check.encode():
                return _snapshot_decoder.decode(envelope.snapshot)
        except Exception as error:  # each decompressor has an error type of its own
            raise Damaged(f"the snapshot at {seq} is damaged: {error}", seq=seq) from error
        raise Damaged(f"the snapshot at {seq} is damaged", seq=seq)

    def newest(self, at: int | None = None) -> Snapshot | None:
        """Return the newest intact snapshot, or the newest at or before ``at``."""
        for seq in self.seqs():
            if at is None or seq <= at:
                with contextlib.suppress(Damaged):
                    return self.load(seq)
        return None

    def lend(self, seq: int, documents: Documents) -> None:
        """Copy a snapshot to a log that begins with the same events; durable with its next sync."""
        name = f"{_FOLDER}{seq}{_SUFFIX}"
        found = self._documents.get(name)
        if found is not None:
            documents.put(name, found[0], sync=False)

    def drop_all(self) -> None:
        for seq in self.seqs():
            self.drop(seq)

    def drop_useless(self, offset: int) -> None:
        """Remove snapshots that know more than a log of this length has, and damaged ones."""
        for seq in self.seqs():
            try:
                is_useless = self.load(seq).offset > offset
            except Damaged:
                is_useless = True
            if is_useless:
                self.drop(seq)

    def drop(self, seq: int) -> None:
        """Remove one snapshot. If it cannot be removed, it does no harm."""
        with contextlib.suppress(StoreError):
            self._documents.delete(f"{_FOLDER}{seq}{_SUFFIX}")


def _expanded(data: bytes) -> bytes:
    """Return the JSON text, whatever it was compressed with; magic bytes decide, not names."""
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


# Sealed prefixes: a digest of a log's first bytes that can be continued without reading them again.
# The log is cut into blocks of 1 MiB. ``link`` k is the SHA-256 of link k-1 and block k-1; the digest at an offset is
# that of the link of its block and the bytes between. A snapshot keeps both, so that the next one reads a block and
# what is new, and a verification reads the log once.
BLOCK_BYTES = 1 << 20


class PrefixChain:
    """The digests at some places of a log that is read from its beginning, in chunks."""

    def __init__(self, offsets: Iterable[int] = (), *, link: bytes = b"", start: int = 0) -> None:
        self._offsets = sorted(set(offsets), reverse=True)
        self.link = link  # the link of all blocks before the one that is being read
        self._at = start
        self._waiting = bytearray()
        self.digests: dict[int, str] = {}  # the digests at the places reached so far, by offset

    def feed(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            room = BLOCK_BYTES - len(self._waiting)
            if self._offsets:
                room = min(room, self._offsets[-1] - self._at)
            self._waiting += view[:room]
            self._at += len(view[:room])
            view = view[room:]
            if len(self._waiting) == BLOCK_BYTES:
                self.link = bytes.fromhex(self.digest_here())
                self._waiting.clear()
            if self._offsets and self._offsets[-1] == self._at:
                self.digests[self._offsets.pop()] = self.digest_here()

    def digest_here(self) -> str:
        from hashlib import sha256  # a program that only records takes no digest

        return sha256(self.link + self._waiting).hexdigest()


def prefix_digest(log: Log, offset: int, link: str, linked: int) -> tuple[str, str]:
    """Return the digest of a log's first ``offset`` bytes, and the link of the block that they end in.

    ``link`` is the link at an earlier place, of its first ``linked`` bytes; empty for none.
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


# From stored bytes to a state: the newest snapshot that fits, and the events after it.
_SECTOR_BYTES = 512  # the smallest part that a medium leaves unwritten


class Loaded(msgspec.Struct):
    """A session as it was loaded."""

    fold: Fold
    position: Position = START
    snapshot: Snapshot | None = None
    gaps: list[Gap] = []
    torn: int = 0
    open_line: bool = False
    ahead: Snapshot | None = None
    """The newest snapshot of this very log that covers more than the log has."""


def load(
    log: Log, documents: Documents, *, limits: Limits | None = None, tolerant: bool = False, begun: bool = False
) -> Loaded:
    """Return the state at the end of the log; ``begun`` says that there is one, however short.

    Raises TooNew for a newer format, and Damaged if the log ends before an intact snapshot says it
    does (acknowledged events are missing), unless ``tolerant``.
    """
    if not begun and not log.size():
        return Loaded(Fold())
    passed: list[Snapshot] = []
    snapshots, size = Snapshots(documents, limits), 0
    for seq in snapshots.seqs():
        try:
            snapshot = snapshots.load(seq)
        except Damaged:
            continue
        if snapshot.offset > size:
            size = log.size()
        # None if the bytes before do not end as the snapshot says.
        tail = chunks_after(log, snapshot.position) if 0 < snapshot.offset <= size else None
        if tail is not None:
            loaded = Loaded(Fold(snapshot.state), snapshot=snapshot)
            _read_into(loaded, reader_at(log, snapshot.position), tail)
            if not loaded.gaps:
                break
        elif not _is_of_another(snapshot, log):
            if snapshot.offset > size and not tolerant:
                raise Damaged(
                    f"the log ends at byte {size:,}, but a snapshot knows of events up to byte {snapshot.offset:,}",
                    seq=snapshot.seq,
                )
            passed.append(snapshot)
    else:
        loaded = _read_into(Loaded(Fold()), LineReader(unseal=log.unseal), log.read())
    for one in reversed(passed):  # the newest is set last
        # A snapshot of an older generation may be left over from before the log was rewritten.
        mine = one.state.generation >= loaded.fold.state.generation
        if mine and one.offset > loaded.position.offset:
            loaded.ahead = one
    return loaded


def is_alive(state: State) -> bool:
    """Return whether the last writer may still be running, by its opening event: turns in a log do not show that."""
    last = state.last_open
    return last is not None and not last.closed and is_at_work(last.pid, last.host)


def load_whole(log: Log, more: Iterable[bytes]) -> Loaded:
    """Return the state at the end of a log and of the lines that will follow it, all of it read."""
    return _read_into(Loaded(Fold()), LineReader(unseal=log.unseal), chain(log.read(), more))


def find_loss(log: Log, position: Position, torn: int, *, settled: int, ahead: Snapshot | None) -> Gap | None:
    """Return the loss at the end of a log without gaps, complete up to ``position``; None if none is known.

    Offsets do not compare if something before is damaged. ``torn`` bytes follow. An end cut off by a crash is no
    loss: it was never acknowledged as safe. It is one if more had been synced, if a snapshot covers more events, or
    if the bytes of a log without any event are not what a crash leaves of the first write. ``settled`` was read
    before the log, because a writer may be active.
    """
    end = max(settled, 0 if ahead is None else ahead.offset)
    if end > position.offset:
        last = max(position.seq, -1 if ahead is None else ahead.seq)
        return Gap(position.offset, end - position.offset, position.seq, last, at_end=True)
    if torn and not position.seq and not _may_be_first_write(next(log.read(), b"")):
        return Gap(0, torn, 0, 0, at_end=True)
    return None


def unreadable_from(log: Log, documents: Documents) -> int | None:
    """Return the first event that damage, not a torn write, took from a log's end; None for none.

    Reads the whole tail.
    """
    first = _look_at_end(log, documents)
    # A writer may have cut off and rewritten what had been read before: look again.
    return first if first is None or _look_at_end(log, documents) == first else None


def _look_at_end(log: Log, documents: Documents) -> int | None:
    settled, noted = log.settled(), max(Snapshots(documents).seqs(), default=-1)
    seen = whole_end(log)
    if seen is not None and settled <= seen.offset and noted < seen.seq:
        return None
    with contextlib.suppress(SecurityError, TooNew):
        loaded = load(log, documents, tolerant=True, begun=True)
        position, ahead = loaded.position, loaded.ahead
        end = max(settled, 0 if ahead is None else ahead.offset)
        if loaded.gaps and end > log.size():  # it is shorter in the middle: offsets do not compare
            settled, ahead = 0, None
        loss = find_loss(log, position, loaded.torn, settled=settled, ahead=ahead)
        if loss is not None or (loaded.torn and _has_bad_lines(log, position)):
            return position.seq
    return None


def _has_bad_lines(log: Log, position: Position) -> bool:
    """Return whether complete but invalid lines follow: a crash leaves a beginning, or zeros in some places."""
    reader, is_zeroed = reader_at(log, position), False
    for chunk in log.read(position.offset):
        reader.feed(chunk)
        is_zeroed |= b"\0" in chunk
    return reader.damaged and not is_zeroed


def _may_be_first_write(data: bytes) -> bool:
    """Return whether a crash may have left these bytes of a first write: its beginning, or zeros in places."""
    zeros = len(data) - len(data.lstrip(b"\0"))
    if zeros:
        return zeros == len(data) or zeros % _SECTOR_BYTES == 0
    line, newline, _ = data.partition(b"\n")
    if not newline:
        return data.startswith(b'{"'[: len(data)])
    # The first line of a batch may be complete; without the rest it does not count.
    return is_as_written(line + newline)


def load_state_at(log: Log, documents: Documents, at: int) -> Fold:
    """Return the fold of the events up to and including ``at``."""
    fold, position = Fold(), START
    snapshot = Snapshots(documents).newest(at)
    if snapshot is not None and snapshot.offset <= log.size() and fits(log, snapshot.position):
        fold, position = Fold(snapshot.state), snapshot.position
    for event in _events_from(reader_at(log, position), log.read(position.offset)):
        if event.seq > at:
            break
        _apply(fold, [event])
    return fold


def _is_of_another(snapshot: Snapshot, log: Log) -> bool:
    """Return whether a snapshot is of a writer that was overtaken while its session was created anew."""
    fold = Fold()
    _apply(fold, list(islice(_events_from(reader_at(log, START), log.read()), 1)))
    return None not in (fold.state.log, snapshot.state.log) and fold.state.log != snapshot.state.log


def _read_into(loaded: Loaded, reader: LineReader, chunks: Iterable[bytes]) -> Loaded:
    for chunk in chunks:
        _apply(loaded.fold, reader.feed(chunk))
    if rest := reader.finish():
        _apply(loaded.fold, rest)
    loaded.position, loaded.gaps = reader.position, reader.gaps
    loaded.torn, loaded.open_line = reader.torn, reader.open_line
    return loaded


def _apply(fold: Fold, events: list[Event]) -> None:
    if events and events[0].type == "session_start":
        check_format(events[0])
    fold.fold(events)


def _events_from(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[Event]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.finish()
