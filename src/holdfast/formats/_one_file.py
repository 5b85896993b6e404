"""One file that is imported, read within bounds: whole, or line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from holdfast.errors import InvalidData, TooLarge
from holdfast.formats._bounds import Bounds
from holdfast.formats._expansion import expanded

__all__ = ["CHUNK_BYTES", "File", "MemoryFile", "check_line_count", "read_lines", "read_whole"]

CHUNK_BYTES = 1024 * 1024


class File(Protocol):
    """Bytes at some place, of a known size."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    @property
    def modified(self) -> int:
        """When they were last changed, in Unix milliseconds; 0 if that is not known."""
        ...

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """The bytes from the start, piece by piece."""
        ...


class MemoryFile:
    """Bytes in memory as a file."""

    def __init__(self, data: bytes, modified: int = 0) -> None:
        self._data = data
        self.size = len(data)
        self.modified = modified

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """The bytes from the start, piece by piece."""
        for start in range(0, self.size, chunk_bytes):
            yield self._data[start : start + chunk_bytes]


def read_whole(file: File, name: str, most: int, bounds: Bounds) -> bytes:
    """A file, expanded. Raises TooLarge if it has more bytes, InvalidData if it is cut short."""
    parts, total = [], 0
    # In one piece where that is possible, so that it is in memory once.
    for chunk in expanded(file.chunks(max(min(file.size, most) + 1, 16)), bounds):
        total += len(chunk)
        if total > most:
            raise TooLarge(
                f"{name} has more than {most:,} bytes",
                remedy="Import a smaller file.",
                needed_bytes=total,
            )
        parts.append(chunk)
    return b"".join(parts)


def read_lines(file: File, bounds: Bounds) -> Iterator[bytes]:
    """The lines of a log that are not blank, without their newline. Raises as reading it does."""
    rest, total = bytearray(), 0
    for chunk in expanded(file.chunks(CHUNK_BYTES), bounds):
        total += len(chunk)
        if total > bounds.log_bytes_max:
            raise TooLarge(f"the log has more than {bounds.log_bytes_max:,} bytes")
        *whole, last = chunk.split(b"\n")
        if whole:
            whole[0] = bytes(rest) + whole[0]
            rest.clear()
        for line in whole:
            _check_line(line, bounds)
            stripped = line.strip()
            if stripped:
                yield stripped
        rest += last
        _check_line(rest, bounds)
    if rest.strip():
        yield bytes(rest).strip()


def _check_line(line: bytes | bytearray, bounds: Bounds) -> None:
    if len(line) > bounds.line_bytes_max:
        raise TooLarge(f"a line has more than {bounds.line_bytes_max:,} bytes")


def check_line_count(file: File, name: str, bounds: Bounds) -> None:
    """Raise TooLarge for a log of too many lines, before the first of them is kept."""
    count = since = 0
    try:
        for chunk in expanded(file.chunks(CHUNK_BYTES), bounds):
            lines = chunk.count(b"\n")
            count, since = count + lines, 0 if lines else since + len(chunk)
            if count > bounds.lines_max or since > bounds.line_bytes_max:
                break
    except (InvalidData, TooLarge):
        return  # told when it is read
    if count > bounds.lines_max:
        raise TooLarge(
            f"{name} has more than {bounds.lines_max:,} lines",
            remedy="Split the file; nothing of it was recorded.",
            limit="lines_max",
        )
