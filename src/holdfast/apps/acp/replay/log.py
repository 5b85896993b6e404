"""A log as lists of events, read as quickly as it can be verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from holdfast.apps.acp.replay.lines import EventLine, decode_lines
from holdfast.model import Event, has_marked_keys, verified_blocks
from holdfast.session import resolve_blobs
from holdfast.storage import Documents

__all__ = ["Some", "in_some", "read_some"]

_AT_ONCE = 512
_BLOCK_BYTES = 192 * 1024
_decode = msgspec.json.Decoder(Event).decode_lines

Careful = Callable[[int], Iterator[Event]]
Load = Callable[[], list[Event]]


class Some:
    """Some events, at least one, in order.

    ``lines`` are the same, decoded only as far as a replay looks at them, if they are all of the
    usual form: their data then hold neither escaped keys nor references to payloads.
    """

    def __init__(self, first: int, size: int, load: Load, lines: list[Any] | None = None) -> None:
        self.first = first
        self.last = first + size - 1
        self.lines = lines
        self._load = load
        self._events: list[Event] | None = None

    @property
    def events(self) -> list[Event]:
        """All of them."""
        if self._events is None:
            self._events = self._load()
        return self._events

    def event(self, seq: int) -> Event:
        """One of them."""
        return self.events[seq - self.first]


def read_some(
    chunks: Iterable[bytes],
    first: int,
    stop: int,
    documents: Documents,
    careful: Careful,
    *,
    block_bytes: int = _BLOCK_BYTES,
) -> Iterator[Some]:
    """The events with ``first <= seq < stop``, with their payloads, some at a time.

    Each block of the log is verified and decoded with one call, and a batch is not waited for:
    below ``stop`` everything has to be whole. From the first bytes on that are not as a writer of
    ours leaves them, ``careful`` is asked for the events from a number on.
    """
    seq = 0
    for block in verified_blocks(chunks, block_bytes):
        lines, load = _usual(block), partial(_load, block, documents)
        try:
            numbers = [line.seq for line in (lines or load())]
        except (ValueError, RecursionError):  # it may be sealed
            break
        if numbers != list(range(seq, seq + len(numbers))):
            break
        begin, end = max(0, first - seq), max(0, min(len(numbers), stop - seq))
        if begin < end:
            chosen = None if lines is None else lines[begin:end]
            yield Some(seq + begin, end - begin, partial(_part, load, begin, end), chosen)
        seq += len(numbers)
        if seq >= stop:
            return
    yield from in_some(resolve_blobs(careful(max(first, seq)), documents))


def in_some(events: Iterator[Event]) -> Iterator[Some]:
    """Events that have their payloads, some at a time."""
    while found := list(islice(events, _AT_ONCE)):
        size = found[-1].seq - found[0].seq + 1  # some in between may be lost
        yield Some(found[0].seq, size, partial(list, found))


def _usual(block: bytes) -> list[EventLine] | None:
    if has_marked_keys(block):
        return None
    try:
        return decode_lines(block)
    except (ValueError, RecursionError):
        return None


def _load(block: bytes, documents: Documents) -> list[Event]:
    return list(resolve_blobs(_decode(block), documents))


def _part(load: Load, begin: int, end: int) -> list[Event]:
    return load()[begin:end]
