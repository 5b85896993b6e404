"""From stored bytes to a state: the newest snapshot that fits, and the events after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from holdfast.errors import Damaged, SecurityError, TooNew
from holdfast.model import START, Event, Gap, Limits, LineReader, Position, is_as_written
from holdfast.replay import Fold, check_format
from holdfast.session._snapshots import Snapshot, Snapshots
from holdfast.session.reader import chunks_after, fits, reader_at, whole_end
from holdfast.storage import Documents, Log

_SECTOR_BYTES = 512  # the least that a medium leaves unwritten


class Loaded(msgspec.Struct):
    """A session as it was found."""

    fold: Fold
    position: Position = START
    snapshot: Snapshot | None = None
    gaps: list[Gap] = []
    torn: int = 0
    open_line: bool = False
    ahead: Snapshot | None = None
    """The newest snapshot of this very log that knows more than the log has."""

    @property
    def has_past(self) -> bool:
        """Whether there was anything at all."""
        return self.position.seq > 0


def load(
    log: Log,
    documents: Documents,
    *,
    limits: Limits | None = None,
    tolerant: bool = False,
    begun: bool = False,
) -> Loaded:
    """The state at the end of the log; ``begun`` says that there is one, however short.

    Raises TooNew for a newer format, and Damaged if the log ends before a whole snapshot says it
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
        tail = _tail_after(snapshot, log) if snapshot.offset <= size else None
        if tail is not None:
            loaded = Loaded(Fold(snapshot.state), snapshot=snapshot)
            _read_into(loaded, reader_at(log, snapshot.position), tail)
            if not loaded.gaps:
                break
        elif not _is_of_another(snapshot, log):
            if snapshot.offset > size and not tolerant:
                raise Damaged(
                    f"the log ends at byte {size:,}, but a snapshot knows of events"
                    f" up to byte {snapshot.offset:,}",
                    seq=snapshot.seq,
                )
            passed.append(snapshot)
    else:
        loaded = _read_into(Loaded(Fold()), LineReader(unseal=log.unseal), log.read())
    for one in passed:
        # One of an older generation may be left over from before the log was written anew.
        mine = one.state.generation >= loaded.fold.state.generation
        if mine and one.offset > loaded.position.offset:
            loaded.ahead = one
            break
    return loaded


def find_loss(
    log: Log, position: Position, torn: int, *, settled: int, ahead: Snapshot | None
) -> Gap | None:
    """What is missing at the end of a log without gaps, which is whole up to ``position``.

    None if nothing is known to be. Where something is damaged before, places do not compare.

    ``torn`` bytes follow. That a crash took the end is no loss: nobody was told that it was safe.
    It is one if more had been synced, if a snapshot knows more events, or if the bytes of a log
    without any event are not what a crash leaves of the first write. ``settled`` is what the log
    said before it was read, since a writer may be at it.
    """
    end = max(settled, 0 if ahead is None else ahead.offset)
    if end > position.offset:
        last = max(position.seq, -1 if ahead is None else ahead.seq)
        return Gap(position.offset, end - position.offset, position.seq, last, at_end=True)
    if torn and not position.seq and not _may_be_first_write(next(log.read(), b"")):
        return Gap(0, torn, 0, 0, at_end=True)
    return None


def unreadable_from(log: Log, documents: Documents) -> int | None:
    """Return the first of the events at the end of a log that damage took; None if it took none.

    An unfinished write is no damage. Of a log that is whole only the tail is read.
    """
    first = _look_at_end(log, documents)
    # A writer may have cut off, and written anew, what had been read before: look again.
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
        if loaded.gaps and end > log.size():  # it is shorter in its midst: places do not compare
            settled, ahead = 0, None
        loss = find_loss(log, position, loaded.torn, settled=settled, ahead=ahead)
        if loss is not None or (loaded.torn and _has_bad_lines(log, position)):
            return position.seq
    return None


def _has_bad_lines(log: Log, position: Position) -> bool:
    """Whether lines follow that are whole and not as written.

    A crash leaves the beginning of what was written, or zeros in the place of some of it.
    """
    reader, is_zeroed = reader_at(log, position), False
    for chunk in log.read(position.offset):
        reader.feed(chunk)
        is_zeroed = is_zeroed or b"\0" in chunk
    return reader.damaged and not is_zeroed


def _may_be_first_write(data: bytes) -> bool:
    """Whether bytes without an event can be what a crash left of the first write to a log.

    That is its beginning, or zeros in the place of what was not written yet.
    """
    zeros = len(data) - len(data.lstrip(b"\0"))
    if zeros:
        return zeros == len(data) or zeros % _SECTOR_BYTES == 0
    line, newline, _ = data.partition(b"\n")
    if not newline:
        return data.startswith(b'{"'[: len(data)])
    # The first of several lines that belong together may be whole; without the rest it is none.
    return is_as_written(line + newline)


def load_state_at(log: Log, documents: Documents, at: int) -> Fold:
    """The fold of the events up to and including ``at``."""
    fold, position = Fold(), START
    snapshot = Snapshots(documents).newest(at)
    if snapshot is not None and snapshot.offset <= log.size() and fits(log, snapshot.position):
        fold, position = Fold(snapshot.state), snapshot.position
    for event in _events_from(reader_at(log, position), log.read(position.offset)):
        if event.seq > at:
            break
        _apply(fold, [event])
    return fold


def _tail_after(snapshot: Snapshot, log: Log) -> Iterator[bytes] | None:
    """What the log has after a snapshot; None if its bytes before do not end as that says."""
    return chunks_after(log, snapshot.position) if snapshot.offset else None


def _is_of_another(snapshot: Snapshot, log: Log) -> bool:
    """Whether it was left by a writer that was overtaken while its session was made anew."""
    fold = Fold()
    _apply(fold, list(islice(_events_from(reader_at(log, START), log.read()), 1)))
    return None not in (fold.state.log, snapshot.state.log) and fold.state.log != snapshot.state.log


def _read_into(loaded: Loaded, reader: LineReader, chunks: Iterable[bytes]) -> Loaded:
    for chunk in chunks:
        _apply(loaded.fold, reader.feed(chunk))
    if rest := reader.finish():
        _apply(loaded.fold, rest)
    loaded.position = reader.position
    loaded.gaps = reader.gaps
    loaded.torn = reader.torn
    loaded.open_line = reader.open_line
    return loaded


def _apply(fold: Fold, events: list[Event]) -> None:
    if events and events[0].type == "session_start":
        check_format(events[0])
    fold.fold(events)


def _events_from(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[Event]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.finish()
