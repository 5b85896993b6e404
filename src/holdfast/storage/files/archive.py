"""Compressed logs: zstd frames of 1 MiB that can each be unpacked alone, and a table of them.

Any zstd tool unpacks the file. Its last frame is the seek table of zstd's seekable format; its
first one, which tools skip as well, has the length of the log and its last change. Unpacking is
bounded: a file that was copied in may claim anything.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from holdfast.errors import TooLarge
from holdfast.storage._pieces import rechunked, zstd_module

FRAME_BYTES = 1 << 20
ARCHIVE_BYTES_MAX = 1 << 30  # logs larger than this are neither packed nor unpacked

_LEVEL = 3
_CHUNK_BYTES = 1 << 18
# Frames up to this size are trusted only as a whole; longer ones, of other tools, are streamed.
_WHOLE_BYTES_MAX = 8 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0
_TABLE_MAGIC = 0x184D2A5E
_TABLE_END = struct.Struct("<IBI")
_TABLE_END_MAGIC = 0x8F92EAB1
_TABLE_ROW = struct.Struct("<II")
_HEAD = struct.Struct("<8sQQ")
_HEAD_NAME = b"holdfast"
_HEAD_BYTES = _SKIPPABLE.size + _HEAD.size

ReadAt = Callable[[int, int], bytes]  # reads at most that many bytes from an offset of a file


class ArchiveFrame(NamedTuple):
    """Bytes ``start`` to ``start + size`` of the log, in ``packed`` bytes at ``offset``: none if they are lost."""

    offset: int
    packed: int
    start: int
    size: int


def pack(chunks: Iterable[bytes], size: int, modified: int) -> Iterator[bytes]:
    """Yield the archive of a log of ``size`` bytes, piece by piece."""
    head = _skippable(_SKIPPABLE_MAGIC, _HEAD.pack(_HEAD_NAME, size, modified))
    rows = [(len(head), 0)]
    yield head
    # Each frame has the length of its content and a checksum of it.
    zstd = zstd_module()
    options = {zstd.CompressionParameter.compression_level: _LEVEL, zstd.CompressionParameter.checksum_flag: 1}
    for piece in rechunked(chunks, FRAME_BYTES):
        frame: bytes = zstd.compress(piece, options=options)
        rows.append((len(frame), len(piece)))
        yield frame
    table = b"".join(_TABLE_ROW.pack(*row) for row in rows)
    end = _TABLE_END.pack(len(rows), 0, _TABLE_END_MAGIC)
    yield _skippable(_TABLE_MAGIC, table + end)


class Archive:
    """An archive, and the log in it. Damaged parts read as zero bytes.

    ``modified`` is when the log last changed, in nanoseconds; None if the archive does not have it.
    """

    def __init__(self, read_at: ReadAt, file_size: int) -> None:
        self._read_at = read_at
        self._file_size = file_size
        claimed, self.modified = self._head()
        table = self._table()
        if table is None or claimed not in (None, _end(table)):
            # At least one of the two is damaged: what can be unpacked decides.
            self.frames = self._walk(claimed)
            self.has_table = table is not None and _end(table) == _end(self.frames)
        else:
            self.frames, self.has_table = table, True
        self.size = _end(self.frames)
        if not self.has_table:
            self.size = max(self.size, claimed or 0)
        self.damaged = not self.has_table  # whether something was missing so far

    def check(self) -> None:
        """Raise TooLarge if its log exceeds the limit of unpacking."""
        if self.size > ARCHIVE_BYTES_MAX:
            raise TooLarge(
                f"the archive says that it holds {self.size:,} bytes,"
                f" more than the {ARCHIVE_BYTES_MAX:,} that are unpacked",
                remedy="Unpack it with a zstd tool, if you trust where it comes from.",
            )

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of the log from an offset on."""
        self.check()
        for frame in self.frames:
            if frame.start + frame.size > start:
                skip = start - frame.start
                for chunk in self._unpacked(frame):
                    for at in range(max(0, skip), len(chunk), _CHUNK_BYTES):
                        yield chunk[at : at + _CHUNK_BYTES]
                    skip -= len(chunk)
                start = frame.start + frame.size
        yield from _zeros(self.size - start)

    def pieces(self, starts: Sequence[int], size: int) -> list[bytes] | None:
        """Return ``size`` bytes from each of these places; each frame is unpacked once.

        None for an archive with damage or with frames too large to hold.
        """
        self.check()
        if self.damaged or any(frame.size > _WHOLE_BYTES_MAX for frame in self.frames):
            return None
        begins = [frame.start for frame in self.frames]
        found: dict[int, bytes] = {}
        at, data = -1, b""
        for start in sorted(set(starts)):
            piece = b""
            for number in range(max(bisect_right(begins, start) - 1, 0), len(begins)):
                if begins[number] >= start + size:
                    break
                if number != at:
                    at, data = number, b"".join(self._unpacked(self.frames[number]))
                piece += data[max(start - begins[at], 0) : start + size - begins[at]]
            found[start] = piece
        return None if self.damaged else [found[start] for start in starts]

    def _unpacked(self, frame: ArchiveFrame) -> Iterator[bytes]:
        left = frame.size
        try:
            if left <= _WHOLE_BYTES_MAX:
                yield b"".join(self._stream(frame))
                return
            for chunk in self._stream(frame):
                left -= len(chunk)
                yield chunk
        except zstd_module().ZstdError:
            self.damaged = True
            yield from _zeros(left)

    def _stream(self, frame: ArchiveFrame) -> Iterator[bytes]:
        """Yield the bytes of a frame as they are unpacked; ZstdError unless their number is as stated."""
        left = frame.size
        for chunk, _ in self._unpack_at(frame.offset, frame.offset + frame.packed):
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
        if left:
            raise zstd_module().ZstdError("a frame has another size than the table says")

    def _unpack_at(self, offset: int, stop: int) -> Iterator[tuple[bytes, int]]:
        """Yield the content of the frame at an offset, and where its packed bytes end (0 until known)."""
        zstd = zstd_module()
        unpacker = zstd.ZstdDecompressor()
        while not unpacker.eof:
            data = b""
            if unpacker.needs_input:
                data = self._read_at(min(_CHUNK_BYTES, stop - offset), offset)
                if not data:
                    raise zstd.ZstdError("a frame ends too early")
                offset += len(data)
            yield unpacker.decompress(data, max_length=_CHUNK_BYTES), 0
        yield b"", offset - len(unpacker.unused_data)

    def _head(self) -> tuple[int | None, int | None]:
        data = self._read_at(_HEAD_BYTES, 0)
        if len(data) == _HEAD_BYTES:
            magic, length = _SKIPPABLE.unpack_from(data)
            name, size, modified = _HEAD.unpack_from(data, _SKIPPABLE.size)
            if (magic, length, name) == (_SKIPPABLE_MAGIC, _HEAD.size, _HEAD_NAME):
                return size, modified
        return None, None

    def _table(self) -> list[ArchiveFrame] | None:
        """Return the frames by the table at the end; None if there is no valid one."""
        at = self._file_size - _TABLE_END.size
        end = self._read_at(_TABLE_END.size, at) if at > 0 else b""
        if len(end) != _TABLE_END.size:
            return None
        count, flags, magic = _TABLE_END.unpack(end)
        begin = at - count * _TABLE_ROW.size - _SKIPPABLE.size
        if magic != _TABLE_END_MAGIC or flags or begin < 0:
            return None
        data = self._read_table(begin, at)
        if data[: _SKIPPABLE.size] != _SKIPPABLE.pack(_TABLE_MAGIC, at - begin + 1):
            return None
        frames, offset, start = [], 0, 0
        for packed, size in _TABLE_ROW.iter_unpack(data[_SKIPPABLE.size :]):
            if size:
                frames.append(ArchiveFrame(offset, packed, start, size))
            offset, start = offset + packed, start + size
        return frames if offset == begin else None

    def _read_table(self, begin: int, stop: int) -> bytes:
        parts = []
        while begin < stop and (data := self._read_at(stop - begin, begin)):
            parts.append(data)
            begin += len(data)
        return b"".join(parts)

    def _walk(self, claimed: int | None) -> list[ArchiveFrame]:
        """Return the frames found one after the other, if there is no table. Unpacks everything.

        After damage it continues at the next frame that can be found. One of our own frames is then
        assumed lost, so that what follows keeps its place.
        """
        frames: list[ArchiveFrame] = []
        offset = start = 0
        while offset < self._file_size and start <= ARCHIVE_BYTES_MAX:
            found = self._measure(offset)
            if found is None:
                offset = self._next_frame(offset + 1)
                lost = min(FRAME_BYTES, (claimed or 0) - start) if offset < self._file_size else 0
                frames.append(ArchiveFrame(0, 0, start, max(0, lost)))
            else:
                frames.append(ArchiveFrame(offset, found[0], start, found[1]))
                offset += found[0]
            start += frames[-1].size
        return [frame for frame in frames if frame.size]

    def _measure(self, offset: int) -> tuple[int, int] | None:
        """Return the packed and the unpacked size of a frame; None if it is not a complete frame."""
        head = self._read_at(_SKIPPABLE.size, offset)
        if len(head) == _SKIPPABLE.size:
            magic, length = _SKIPPABLE.unpack(head)
            if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
                end = offset + _SKIPPABLE.size + length
                return (end - offset, 0) if end <= self._file_size else None
        if not head.startswith(_ZSTD_MAGIC):
            return None
        size = 0
        try:
            for chunk, end in self._unpack_at(offset, self._file_size):
                size += len(chunk)
                if end or size > ARCHIVE_BYTES_MAX:
                    return (end or self._file_size) - offset, size
        except zstd_module().ZstdError:
            pass
        return None

    def _next_frame(self, offset: int) -> int:
        """Return where the next frame may begin; the end of the file if there is none."""
        kept = len(_ZSTD_MAGIC) - 1
        while data := self._read_at(_CHUNK_BYTES, offset):
            found = data.find(_ZSTD_MAGIC)
            if found >= 0:
                return offset + found
            if len(data) <= kept:
                break
            offset += len(data) - kept
        return self._file_size


def _end(frames: list[ArchiveFrame]) -> int:
    """Return the length of the log that some frames hold."""
    return frames[-1].start + frames[-1].size if frames else 0


def checksum(chunks: Iterable[bytes]) -> tuple[int, int]:
    """Return the length and the CRC-32 of some chunks."""
    size = crc = 0
    for chunk in chunks:
        size += len(chunk)
        crc = crc32(chunk, crc)
    return size, crc


def _skippable(magic: int, content: bytes) -> bytes:
    return _SKIPPABLE.pack(magic, len(content)) + content


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, _CHUNK_BYTES))
        count -= _CHUNK_BYTES
