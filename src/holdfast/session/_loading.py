"""From stored bytes to a state: the newest snapshot that fits, and the events after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Damaged
from holdfast.model import START, Event, Limits, LineReader, Position
from holdfast.replay import Fold, check_format
from holdfast.session._forwards import chunks_after, reader_at
from holdfast.session._snapshots import Snapshot, Snapshots
from holdfast.storage import Documents, Log

if TYPE_CHECKING:
    from holdfast.model import Gap

__all__ = ["Loaded", "fits", "load", "load_state_at"]


class Loaded(msgspec.Struct):
    """A session as it was found."""

    fold: Fold
    position: Position = START
    snapshot: Snapshot | None = None
    gaps: list[Gap] = []
    torn: int = 0
    open_line: bool = False

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
) -> Loaded:
    """The state at the end of the log.

    Raises TooNew for a newer format, and Damaged if the log ends before a whole snapshot says it
    does (acknowledged events are missing), unless ``tolerant``.
    """
    size = log.size()
    if not size:
        return Loaded(Fold())
    snapshots = Snapshots(documents, limits)
    for snapshot in _candidates(snapshots):
        if snapshot.offset > size:
            size = log.size()  # another one may have written it since it was looked at
        if snapshot.offset > size:
            if not tolerant and not _is_of_another(snapshot, log):
                raise Damaged(
                    f"the log ends at byte {size:,}, but a snapshot knows of events"
                    f" up to byte {snapshot.offset:,}",
                    seq=snapshot.seq,
                )
            continue
        tail = _tail_after(snapshot, log)
        if tail is not None:
            loaded = Loaded(Fold(snapshot.state), snapshot=snapshot)
            _read_into(loaded, reader_at(log, snapshot.position), tail)
            if not loaded.gaps:
                return loaded
    return _read_into(Loaded(Fold()), reader_at(log, START), log.read())


def load_state_at(log: Log, documents: Documents, at: int) -> Fold:
    """The fold of the events up to and including ``at``."""
    fold, position = Fold(), START
    snapshot = Snapshots(documents).newest(at)
    if snapshot is not None and snapshot.offset <= log.size() and fits(snapshot, log):
        fold, position = Fold(snapshot.state), snapshot.position
    for event in _events_from(reader_at(log, position), log.read(position.offset)):
        if event.seq > at:
            break
        _apply(fold, [event])
    return fold


def _candidates(snapshots: Snapshots) -> Iterator[Snapshot]:
    for seq in snapshots.seqs():
        try:
            yield snapshots.load(seq)
        except Damaged:
            continue


def fits(snapshot: Snapshot, log: Log) -> bool:
    """Whether the log's bytes before the snapshot's offset end as the snapshot says."""
    return _tail_after(snapshot, log) is not None


def _tail_after(snapshot: Snapshot, log: Log) -> Iterator[bytes] | None:
    """What the log has after a snapshot; None if its bytes before do not end as that says."""
    return chunks_after(log, snapshot.position) if snapshot.offset else None


def _is_of_another(snapshot: Snapshot, log: Log) -> bool:
    """Whether it was left by a writer that was overtaken while its session was made anew."""
    fold = Fold()
    _apply(fold, list(islice(_events_from(reader_at(log, START), log.read()), 1)))
    return None not in (fold.state.log, snapshot.state.log) and fold.state.log != snapshot.state.log


def _read_into(loaded: Loaded, reader: LineReader, chunks: Iterable[bytes]) -> Loaded:
    for events in _batches(reader, chunks):
        _apply(loaded.fold, events)
    loaded.position = reader.position
    loaded.gaps = reader.gaps
    loaded.torn = reader.torn
    loaded.open_line = reader.open_line
    return loaded


def _apply(fold: Fold, events: list[Event]) -> None:
    if events and events[0].type == "session_start":
        check_format(events[0])
    fold.fold(events)


def _batches(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[list[Event]]:
    for chunk in chunks:
        yield reader.feed(chunk)
    yield reader.finish()


def _events_from(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[Event]:
    for events in _batches(reader, chunks):
        yield from events
