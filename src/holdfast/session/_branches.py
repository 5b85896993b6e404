"""Branches: sessions that begin with the events of another one.

A fork shares its parent's bytes up to a place and continues with events of its own, the
first of which is ``forked``. Neither can change the other. Reading the parent needs no lease.
"""

from __future__ import annotations

import contextlib
import re
import sys
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import Conflict, Damaged, HoldfastError, NotFound, UsageError
from holdfast.model import START, Event, Limits, LineReader, Position, check_id, read_line, running_checksum
from holdfast.replay import check_format
from holdfast.session._clock import Clock, now_ms, random_hex
from holdfast.session._loader import Snapshot, Snapshots
from holdfast.session._writer import Draft, Writer
from holdfast.session.reader import fits, read_range, read_step, resolve_blobs, second_line
from holdfast.storage import Documents, Log, Store, check_clash

if TYPE_CHECKING:
    from holdfast.security import Redactor

_LEASE_MS = 30_000
_LOG_ID_BYTES = 16


class Branches:
    """Creates sessions from others in one store."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        clock: Clock = now_ms,
        redactor: Callable[[], Redactor | None] = lambda: None,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._limits = limits
        self._clock = clock

    def find(self, session_id: str, at: int | None = None) -> EventEnd:
        """Return where a fork at this event would begin. Raises as ``find_place`` does, and UsageError."""
        if at is not None and (type(at) is not int or at < 0):
            raise UsageError(f"an event is named by its number from 0 on, not {at!r}")
        key = f"sessions/{session_id}"
        try:
            with contextlib.suppress(Damaged):
                return find_place(self._store.log(key), self._store.documents(key), at)
            # Reading a session while it is replaced by another fails like this, once.
            return find_place(self._store.log(key), self._store.documents(key), at)
        except NotFound as error:
            error.fields["session_id"] = session_id
            raise

    def make(
        self,
        parent_id: str,
        new_id: str,
        place: EventEnd,
        *,
        reason: str | None = "fork",
        run: str | None = None,
        more: Sequence[Draft] = (),
    ) -> None:
        """Create a session of a parent's events up to a place, ``forked``, and more events.

        All of it is written as one batch, and durable when it returns. If that fails nothing of
        the new session stays, except after a crash in between: then it is a mere copy. Raises
        Conflict if the parent was deleted and recreated, or rewritten, since the place was found.
        """
        key, to = f"sessions/{parent_id}", f"sessions/{new_id}"
        seq, offset, _ = place.position
        data = {"session": parent_id, "seq": seq - 1, "root": self._root_of(key, place)}
        data |= {"log": random_hex(_LOG_ID_BYTES), "reason": reason}
        drafts = [Draft("forked", {name: value for name, value in data.items() if value is not None}, run), *more]
        if more and (redactor := self._redactor()) is not None:
            drafts[1:] = [one._replace(data=redactor.data(one.type, one.data).data) for one in more]
        # The keys come first: a crash must not leave events that cannot be opened.
        documents = _keys_for(self._store, key, seq)
        replaced = Conflict(
            f"session {parent_id} was replaced by another while it was being forked",
            remedy="Fork it again.",
            session_id=parent_id,
        )
        try:
            self._store.branch(key, to, offset, documents=documents)
        except Conflict as error:
            raise (_taken(new_id) if self._store.exists(to) else replaced) from error
        try:
            if not has_place(self._store.log(to), place):
                raise replaced
            self._write(key, to, place, drafts)
        except BaseException:
            with contextlib.suppress(HoldfastError):  # interrupted while it cleaned up: same as after a crash
                self._store.drop(to)
            raise

    def _write(self, source: str, key: str, place: EventEnd, drafts: list[Draft]) -> None:
        log, documents = self._store.log(key), self._store.documents(key)
        with self._store.lease(key).held("fork", _LEASE_MS) as epoch, contextlib.closing(log):
            writer = Writer(
                log, documents, position=place.position, epoch=epoch, limits=self._limits, clock=self._clock
            )
            if place.open_line:
                writer.lead = b"\n"
            if self._store.has_keys:
                from holdfast.session._seal import sealer_for
                from holdfast.session._sealed_store import end_before

                if sealer := sealer_for(self._store, key, log, epoch):
                    writer.seal_with(sealer, end_before(log, writer.offset))
            writer.check(drafts)
            if place.snapshot is not None:
                # It is valid for the fork as well, which then opens as quickly.
                Snapshots(self._store.documents(source)).lend(place.snapshot.seq, documents)
            writer.extend(drafts)
            writer.sync()

    def _root_of(self, key: str, place: EventEnd) -> str | None:
        """Return the root that the parent names, as far as that is known without reading all of it."""
        if base := self._store.base_size(key):
            log = self._store.log(key)
            forked = read_line(line_at(log, base), log.unseal)
            with contextlib.suppress(HoldfastError):
                data = {} if forked is None else forked.data
                root = data.get("root") or data.get("session")
                if isinstance(root, str):
                    return root
        return None if place.snapshot is None else place.snapshot.state.root


def _keys_for(store: Store, source: str, first: int) -> dict[str, bytes]:
    """Return the keys of a fork of a sealed session: a new one, and the parent's for the shared events."""
    if not store.has_keys:
        return {}
    from holdfast.security import KEY_DOCUMENT, Ring, inherited, new_data_key
    from holdfast.session._sealed_store import sealing

    sealed = sealing(store)
    ring = None if sealed is None else sealed.ring(source)
    if sealed is None or ring is None:
        return {}
    number = 1 + max(one.number for one in ring.keys)
    own = new_data_key(number, first=first)
    whole = Ring((*inherited(ring.keys, first), own), ring.state)
    return {KEY_DOCUMENT: sealed.keys.wrap(whole).encode()}


def check_new_id(store: Store, new_id: str) -> str:
    """Return the id if a session can be created under it. Raises InvalidId, UsageError."""
    if store.exists(key := f"sessions/{check_id(new_id)}"):
        raise _taken(new_id)
    check_clash(store, key)
    return new_id


def detach_children(store: Store, *keys: str) -> list[str]:
    """Give every other session that shares bytes with these its own copy; return the keys of those sessions.

    Call it before the bytes of ``keys`` are destroyed: after it no other branch, in use or in the trash, depends on
    the files of these. All sessions are scanned once, however many ``keys`` there are. Raises Locked, with the
    branches before it done, while one of them is open.
    """
    above = keys[0].rpartition("/")[0]
    space = above.rpartition("/")[0] + "/" if "/" in above else ""
    there = {key for folder in ("sessions/", "trash/") for key in store.folders(space + folder)}
    sizes = {key: store.base_size(key) for key in sorted(there.difference(keys))}
    own: dict[int, set[bytes]] = {}
    if any(sizes.values()):
        # The first line that a session recorded itself names its log, which is unique.
        for key in filter(store.exists, keys):
            offset = store.base_size(key)
            own.setdefault(offset, set()).add(line_at(store.log(key), offset))
    done = []
    for key, size in sizes.items():
        shared = sorted(offset for offset in own if offset < size)
        if any(line_at(store.log(key), offset) in own[offset] for offset in shared):
            store.detach(key)
            done.append(key)
    return done


def marked_events(log: Log, *words: bytes) -> Iterator[Event]:
    """Yield the events whose lines contain one of these words, and from a sealed log all events.

    Much faster than reading all events, if few match. Raises as reading does.
    """
    find, rest = re.compile(b"|".join((*map(re.escape, words), b'"sealed":'))).finditer, b""
    for chunk in log.read():
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        stop = -1
        for match in find(whole + newline):
            if match[0] == b'"sealed":':
                yield from read_range(log)
                return
            if match.start() > stop:
                start, stop = whole.rfind(b"\n", 0, match.start()) + 1, whole.find(b"\n", match.end())
                event = read_line(whole[start : stop if stop >= 0 else None] + b"\n", log.unseal)
                stop = len(whole) if stop < 0 else stop
                if event is not None:
                    yield event


def _taken(new_id: str) -> UsageError:
    return UsageError(
        f"there is a session {new_id} already",
        remedy="Choose another id, or leave it out to get a new one.",
        session_id=new_id,
    )


# Finding where an event ends in a log by reading a few places, however long the log is.

# A part as short as this is simply read; a longer one is halved until it is.
_NEAR_BYTES = 1 << 15
_NEAR_EVENTS = 16
_AHEAD_EVENTS = 512  # reading on is faster than looking for a place
_PIECE_BYTES = 1 << 18
# This many bytes contain a whole line and its end, unless the line is huge.
_LOOK_BYTES = 1 << 18
# Up to this size all bytes before the place are checked as well; that takes half a millisecond.
_CHECKED_BYTES_MAX = 1 << 19


class EventEnd(NamedTuple):
    """The end of an event, with what is known there."""

    position: Position
    open_line: bool = False
    """True if the last line of a plain log lacks its newline."""
    snapshot: Snapshot | None = None
    """The newest intact snapshot of the events before."""


def find_place(log: Log, documents: Documents, at: int | None) -> EventEnd:
    """Return the end of event ``at``, or of the last complete one; of its batch, if it is inside one.

    Raises NotFound for an event that is not there, Damaged if bytes before it are not as written
    (as far as they are read: all since the newest snapshot, unless that is more than 512 KiB),
    TooNew for an unknown format. The time does not grow with the log.
    """
    found = Snapshots(documents).newest(at)
    usable = found is not None and found.offset <= log.size() and fits(log, found.position)
    snapshot = found if usable else None
    return _find(log, snapshot, at)._replace(snapshot=snapshot)


class EventFinder:
    """Finds events of one log by their numbers; for many lookups it remembers the places it has passed."""

    def __init__(self, log: Log, documents: Documents) -> None:
        self.log, self._documents = log, documents
        self._places: list[Position] = []  # in the order of the log
        self._read: dict[int, Event] = {}  # the events of the last piece

    def keep(self, event: Event) -> None:
        """Keep an event that was recorded just now, which is most likely the next one asked for."""
        self._read = {event.seq: event}

    def find(self, seq: int) -> Event:
        """Return one event, with big payloads in their place. Raises NotFound if it is not there."""
        if seq not in self._read and not self._look(seq):
            self._places.clear()  # of a log that was created anew since
            if not self._look(seq):
                raise NotFound(f"there is no event {seq}", remedy="Choose another one.", seq=seq)
        found = self._read[seq]
        # Decoded for this caller alone: changing the value must not change the next answer.
        fresh = Event(found.type, found.seq, found.timestamp, found.raw)
        return next(resolve_blobs([fresh], self._documents))

    def _look(self, seq: int) -> bool:
        """Read the piece of the log that has an event; return whether it was found."""
        at = bisect_right(self._places, seq, key=attrgetter("seq"))
        place = self._places[at - 1] if at else START
        if seq - place.seq > _AHEAD_EVENTS:
            try:
                place = find_place(self.log, self._documents, seq - 1).position
            except (Damaged, NotFound):
                place = START  # the events before it do not matter here
            if place.seq > seq:
                place = START  # inside a batch, which has one end
        while True:
            step = read_step(self.log, place, _PIECE_BYTES)
            self._read = {event.seq: event for event in step.events}
            if place not in self._places:
                insort(self._places, place)
            if seq in self._read or step.ended:
                return seq in self._read
            place = step.position


def has_place(log: Log, place: EventEnd) -> bool:
    """Return whether a log has the same events up to a place found in another, as far as ``find_place`` reads."""
    if place.snapshot is not None and not fits(log, place.snapshot.position):
        return False
    try:
        return _find(log, place.snapshot, place.position.seq - 1).position == place.position
    except (NotFound, Damaged):
        return False


def _find(log: Log, snapshot: Snapshot | None, at: int | None) -> EventEnd:
    first = read_line(line_at(log, 0), log.unseal)
    if first is not None:
        check_format(first)
    start = START if snapshot is None else snapshot.position
    wanted = sys.maxsize if at is None else at
    near = _approach(log, start, wanted) if first is not None and first.seq == 0 else start
    # A snapshot may end with that very event; then nothing is left to read.
    place = EventEnd(near) if near.seq > wanted else _walk(log, near, wanted)
    end = place.position
    if end.seq == 0:
        raise NotFound("the session has no events", remedy="Record something in it first.", seq=at)
    if at is not None and end.seq <= at:
        raise NotFound(f"there is no event {at}; the last is {end.seq - 1}", remedy="Choose an earlier one.", seq=at)
    # Check that the bytes in between are as written, unless there are too many of them.
    left = near.offset - start.offset
    if 0 < left <= _CHECKED_BYTES_MAX and running_checksum(log.read(start.offset), left, start.crc) != near.crc:
        raise _damaged(None)
    return place


def line_at(log: Log, offset: int) -> bytes:
    """Return the line that begins at an offset; an incomplete one as far as it goes."""
    found = b""
    for chunk in log.read(offset):
        found += chunk
        if b"\n" in chunk:
            break
    return found[: found.find(b"\n") + 1]


def is_foreign(log: Log) -> bool:
    """Return whether a log begins with a complete line that Holdfast did not write: numbered, without checksum.

    A plain line has neither number nor checksum, ours has both, and a write that a crash
    interrupted has no complete line without its end.
    """
    try:
        found = msgspec.json.decode(line_at(log, 0), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return {"seq", "type"} <= found.keys() and "crc" not in found


def _approach(log: Log, start: Position, wanted: int) -> Position:
    """Return a place before the event, near enough to read on from; lines say themselves where they are.

    It interpolates, and bisects every second time, so that it ends soon; it also bisects where a
    place has no line that says where it is.
    """
    near, end = start, log.size()
    event_bytes, is_halving = 0.0, True
    while end - near.offset > _NEAR_BYTES and wanted - near.seq > _NEAR_EVENTS:
        look = (near.offset + end) // 2
        if not is_halving:
            # The likely place, or a little before it.
            likely = near.offset + (wanted - near.seq) * event_bytes - _NEAR_BYTES // 8
            look = int(min(max(likely, near.offset + 1), end - _NEAR_BYTES // 2))
        found = second_line(look, log.read_part(look, look + _LOOK_BYTES))
        if found is None or not near.offset < found[0].offset <= end:
            if is_halving:
                break
            is_halving = True
            continue
        event_bytes = found[0].offset / max(found[0].seq, 1)
        is_halving = not is_halving
        if found[0].seq <= wanted:
            near = found[0]
        else:
            end = look
    return near


def _walk(log: Log, start: Position, wanted: int) -> EventEnd:
    """Read on from a place until the event has ended. Raises Damaged if a line is incomplete."""
    reader = LineReader(start, log.unseal)
    for block in _blocks(log, start.offset, wanted - start.seq + 1):
        for event in reader.feed(block):
            check_format(event)
        if reader.position.seq > wanted:
            return EventEnd(reader.position)
    for event in reader.finish():
        check_format(event)
    if reader.gaps:
        raise _damaged(reader.gaps[0].first_seq)
    return EventEnd(reader.position, reader.open_line)


def _blocks(log: Log, offset: int, count: int) -> Iterator[bytes]:
    """Yield the first ``count`` lines in as few pieces as possible, then the rest line by line."""
    for chunk in log.read(offset):
        rest = chunk
        while rest:
            lines = rest.count(b"\n")
            after = rest.split(b"\n", max(count, 1))[-1] if lines and lines >= count else b""
            yield rest[: len(rest) - len(after)]
            count, rest = max(count - lines, 0), after


def _damaged(seq: int | None) -> Damaged:
    where = "" if seq is None else f" at event {seq}"
    return Damaged(
        f"the log is damaged{where}, before the place that was asked for",
        remedy="Choose an event before the damage, or run `holdfast repair` first.",
        seq=seq,
    )
