"""The text of an event, read from its log: the index only says where to look.

A line is found by its number, not by the index's idea of its place, and its checksum is verified;
so a stale or damaged index can lead to nothing, but never to text that is not there.
What was read is cached while the store says that the log is unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.catalog._query import fold
from holdfast.catalog._search_texts import TEXT_CHARS_MAX, Said, said_in
from holdfast.errors import HoldfastError
from holdfast.model import LINE_END_BYTES, Event, begins_line, cut_line, has_blob, verified_line, verified_line_at
from holdfast.session import read_range, resolve_blobs

if TYPE_CHECKING:
    from holdfast.catalog._search import Candidate
    from holdfast.storage import Log, Stamp, Store

# Lines may be a little longer or shorter than the index assumed.
_SLACK_BYTES = 1 << 12
_QUICK_BYTES = 1 << 13
_LONG_BYTES = 1 << 17
# So many hits are read at once.
_TOGETHER_MAX = 512
_KEPT_MAX = 512
_KEPT_CHARS_MAX = 1 << 13
# Two changes within the clock's resolution leave the same time on a file.
_TIME_GRAIN_NS = 2_000_000_000
_Line = tuple[bytes, bytes]
_Place = tuple[str, int, int | None, str, str | None]


class Recalled(NamedTuple):
    """The text of an event according to its log."""

    said: Said
    timestamp: int
    folded: str


class RecallCache:
    """A cache of texts read from logs, by key and event."""

    def __init__(self) -> None:
        self._kept: dict[_Place, tuple[Stamp, Recalled]] = {}

    def get(self, key: str, found: Candidate) -> tuple[Stamp, Recalled] | None:
        """Return the text of an event, and the stamp of its log at that time."""
        return self._kept.get(_place(key, found))

    def put(self, key: str, found: Candidate, stamp: Stamp, recalled: Recalled) -> None:
        """Cache it, unless it is long."""
        if len(recalled.folded) <= _KEPT_CHARS_MAX:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[_place(key, found)] = (stamp, recalled)


def _place(key: str, found: Candidate) -> _Place:
    return key, found.seq, found.last, found.role, found.name


class _Part(NamedTuple):
    """A part of a log."""

    start: int
    data: bytes


class _Ready(msgspec.Struct, frozen=True):
    """The known text of an event, or the bytes of the log that hold it."""

    key: str | None
    start: int
    recalled: Recalled | None
    stamp: Stamp | None = None
    data: bytes | None = None


class Recaller:
    """Reads events of many sessions. ``key`` returns the key of a session by its row.

    One of our lines without the bytes ``hint`` is skipped before it is decoded. ``expect`` is
    called with sessions whose keys will be needed.
    """

    def __init__(
        self,
        store: Store,
        key: Callable[[int], str | None],
        hint: bytes | None = None,
        memory: RecallCache | None = None,
        expect: Callable[[Iterable[int]], None] | None = None,
    ) -> None:
        self._store = store
        self._expect = expect
        self._key = key
        self._hint = hint
        self._memory = RecallCache() if memory is None else memory
        # Kept since hits are often close together.
        self._last: tuple[int, _Part] = (-1, _Part(0, b""))

    def recall(self, found: Candidate) -> Recalled | None:
        """Return the text of an event; None if it is not in the log, or not as it was written."""
        return next(self.each([found]))

    def each(self, rows: Sequence[Candidate], together: int | None = None) -> Iterator[Recalled | None]:
        """Yield the text of each event; ``together`` of them are read at once, when they are needed."""
        size = _TOGETHER_MAX if together is None else min(together, _TOGETHER_MAX)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            for found, ready in zip(some, self._get_ready(some), strict=True):
                yield None if ready.key is None else self._named(ready.key, found, ready)

    def _named(self, key: str, found: Candidate, ready: _Ready) -> Recalled | None:
        recalled = ready.recalled
        if recalled is None:
            stamp = ready.stamp or self._store.stamp(key)
            part = None if ready.data is None else _Part(ready.start, ready.data)
            recalled = self._read(key, found, part)
            # Only if a change from now on would show in the stamp.
            if recalled is not None and stamp is not None and time.time_ns() - stamp.modified > _TIME_GRAIN_NS:
                self._memory.put(key, found, stamp, recalled)
        if recalled is None or recalled.said.name is not None or found.name is None:
            return recalled
        return recalled._replace(said=msgspec.structs.replace(recalled.said, name=found.name))

    def _get_ready(self, rows: Sequence[Candidate]) -> list[_Ready]:
        """Return the cached text of these, or the part of the log where the index says it is."""
        if self._expect is not None:
            self._expect([row.session for row in rows])
        ready: list[_Ready] = []
        starts: dict[str, list[int]] = {}
        for row in rows:
            key, start = self._key(row.session), -1
            kept = None if key is None else self._memory.get(key, row)
            recalled = kept[1] if key is not None and kept is not None and kept[0] == self._store.stamp(key) else None
            if key is not None and recalled is None and row.last is None:
                start = max(0, row.place - LINE_END_BYTES)
                starts.setdefault(key, []).append(start)
            ready.append(_Ready(key, start, recalled))
        if not starts:
            return ready
        pieces = self._store.read_pieces(starts, _QUICK_BYTES)
        data = {key: iter(found.data) for key, found in pieces.items()}
        return [
            one
            if one.start < 0 or one.key not in pieces
            else _Ready(one.key, one.start, None, pieces[one.key].stamp, next(data[one.key]))
            for one in ready
        ]

    def _read(self, key: str, found: Candidate, part: _Part | None) -> Recalled | None:
        try:
            if found.last is not None:
                # The streamed text that begins with this event.
                first: Event | None = None
                pieces: list[str] = []
                for delta in read_range(self._store.log(key), start=found.seq, stop=found.last + 1, types={"delta"}):
                    first = first or delta
                    is_thought = delta.data.get("kind") == "thinking"
                    text = delta.data.get("content")
                    if delta.run == first.run and is_thought == (found.role == "thinking") and isinstance(text, str):
                        pieces.append(text)
                if first is None or first.seq != found.seq:
                    return None
                text = "".join(pieces)[:TEXT_CHARS_MAX]
                return Recalled(Said(found.role, text), first.timestamp, fold(text))
            event = self._event(key, found, part)
            if event is None:
                return None
            if has_blob(bytes(event.raw)):
                event = next(resolve_blobs([event], self._store.documents(key)))
            # The one of the event's texts that the index means.
            said = said_in(event.type, event.data)
            alike = [one for one in said if one.role == found.role]
            named = [one for one in alike if one.name == found.name]
        except HoldfastError:
            return None
        meant = next(iter(named or alike or said), None)
        return None if meant is None else Recalled(meant, event.timestamp, fold(meant.text))

    def _event(self, key: str, found: Candidate, part: _Part | None) -> Event | None:
        """Return the event, by the fast path if its line is one of ours, else by reading the log."""
        if part is not None and self._hint is None and (event := verified_line_at(part.data, found.seq)) is not None:
            return event
        line = None if part is None else self._quick_line(key, found, part)
        log = self._store.log(key) if line is None else None
        if log is not None:
            line = self._line(log, found)
        if line is not None:
            hint = self._hint
            # Signs can be in its text plainly, escaped, or in a payload.
            if hint is not None and not (hint in line[1] or b"\\u" in line[1] or has_blob(line[1])):
                return None
            event = verified_line(*line)
            if event is not None and event.seq == found.seq:
                return event
        log = self._store.log(key) if log is None else log
        return next(read_range(log, start=found.seq, stop=found.seq + 1), None)

    def _quick_line(self, key: str, found: Candidate, part: _Part) -> _Line | None:
        """Return the line, if it is where the index says; a long line is read once more."""
        line = _cut(part, found.seq)
        if line is None and begins_line(part.data, found.seq):
            pieces = self._store.read_pieces({key: [part.start]}, _LONG_BYTES).get(key)
            line = None if pieces is None else _cut(_Part(part.start, pieces.data[0]), found.seq)
        return line

    def _line(self, log: Log, found: Candidate) -> _Line | None:
        """Return the line, as :func:`_cut` gives it; None if it was not found."""
        session, part = self._last
        if found.session == session:
            line = _cut(part, found.seq)
            if line is not None:
                return line
        start = max(0, found.place - _SLACK_BYTES)
        data = b""
        for chunk in log.read(start):
            data += chunk
            part = _Part(start, data)
            self._last = (found.session, part)
            line = _cut(part, found.seq)
            if line is not None or not begins_line(data, found.seq):
                return line
        return None


def _cut(part: _Part, seq: int) -> _Line | None:
    return cut_line(part.data, seq, is_start=part.start == 0)
