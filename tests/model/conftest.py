"""What the tests of the model share: reading a log in chunks, and making small ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from holdfast.model import Event, Gap, LineReader, Position, encode_line, line_body


class Reading(NamedTuple):
    """Everything that a reader says about a log."""

    events: list[Event]
    position: Position
    gaps: list[Gap]
    torn: int
    chained: bool
    open_line: bool

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]

    @property
    def texts(self) -> list[Any]:
        return [event.data.get("content") for event in self.events]


def read(log: bytes, size: int | None = None, **options: Any) -> Reading:
    reader = LineReader(**options)
    events: list[Event] = []
    for start in range(0, len(log), size or max(len(log), 1)):
        events += reader.feed(log[start : start + (size or len(log))])
    events += reader.finish()
    return Reading(events, reader.position, reader.gaps, reader.torn, reader.chained, reader.open_line)


def make_lines(*contents: str, first: int = 0, crc: int = 0, more: int = 0) -> list[bytes]:
    """Chained lines of user events; the last ``more`` of them wait for another."""
    lines = []
    for index, content in enumerate(contents):
        waits = index >= len(contents) - more
        made = Event.make("user", {"content": content}, timestamp=index)
        event = Event("user", first + index, index, made.raw, None, None, waits)
        line, crc = encode_line(first + index, line_body(event), crc)
        lines.append(line)
    return lines


@pytest.fixture(scope="session")
def read_log():
    """Reads a whole log, in chunks of a size if one is given."""
    return read


@pytest.fixture(scope="session")
def chain():
    """Makes chained lines with the given texts."""
    return make_lines
