"""Bytes as they come, cut into lines, without ever holding more than one line's limit."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["LINE_BYTES_MAX", "Splitter", "TooLong", "next_lines"]

LINE_BYTES_MAX = 64 * 1024 * 1024
"""One frame: it may carry a picture or a file, and has to fit into memory several times over."""


class TooLong:
    """Stands for a line that was longer than the limit; its bytes are gone."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        """How it began, to tell what it was."""


_HEAD_BYTES = 256
_BYTES_AT_ONCE = 128 * 1024


def next_lines(lines: Iterator[bytes]) -> bytes:
    """The next lines, as many as are worth a write; nothing at the end."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if size >= _BYTES_AT_ONCE:
            break
    return b"".join(found)


class Splitter:
    """Cuts a stream into lines. A line over the limit is skipped and told of, once."""

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that are whole now, without their ends; blank ones do not count."""
        if b"\n" not in data:
            return self._hold(data)
        first, *rest = data.split(b"\n")
        last = rest.pop()
        found = self._hold(first)
        if not self._skipping:
            self._add(found, b"".join(self._parts))
        self._parts, self._held, self._skipping = [], 0, False
        for line in rest:
            self._add(found, line)
        found += self._hold(last)
        return found

    def end(self) -> list[bytes | TooLong]:
        """The stream is over: a last line without its end is a line too."""
        found: list[bytes | TooLong] = []
        if not self._skipping:
            self._add(found, b"".join(self._parts))
        self._parts, self._held, self._skipping = [], 0, False
        return found

    def _add(self, found: list[bytes | TooLong], line: bytes) -> None:
        if len(line) > self._limit:
            found.append(TooLong(line[:_HEAD_BYTES]))
        elif line and not line.isspace():
            found.append(line)

    def _hold(self, data: bytes) -> list[bytes | TooLong]:
        if self._skipping or not data:
            return []
        self._parts.append(data)
        self._held += len(data)
        if self._held <= self._limit:
            return []
        head = b"".join(self._parts)[:_HEAD_BYTES]
        self._parts, self._held, self._skipping = [], 0, True
        return [TooLong(head)]
