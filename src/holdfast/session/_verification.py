"""Verifying a log as it is on the medium: what is intact, and what was tampered with."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Damaged, HoldfastError, KeyMissing, SecurityError, Tampered, TooNew, UsageError
from holdfast.model import (
    BEFORE_ALL,
    START,
    Event,
    Gap,
    LineReader,
    Position,
    blob_name,
    end_of,
    has_blob,
    open_line,
    struct_html,
    struct_repr,
)
from holdfast.session._loader import PrefixChain, Snapshots, find_loss, load, prefix_digest
from holdfast.session.reader import references
from holdfast.storage import Documents, Log

if TYPE_CHECKING:
    from holdfast.model import Salvage, Unseal

_LOOKS_MAX = 5
_FOREIGN = (
    "No line can be read: they have numbers, but no checksums. Without `seq` in its lines it opens as a plain log."
)
_HEAD = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{64})")


class TamperedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One place that is not as it was written, though its checksums match."""

    what: str
    """The problem, as the end of a sentence that begins with the event."""
    seq: int
    offset: int
    size: int
    who: str = ""
    """The writer that had the session open when it was written, as far as the log shows."""


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier repair, as recorded in the log: what was lost for good."""

    seq: int
    """The event that records it."""
    timestamp: int
    gaps: list[Gap]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking every byte of a session."""

    __repr__, _repr_html_ = struct_repr, struct_html

    session_id: str = ""
    ok: bool = True
    events: int = 0
    size_bytes: int = 0
    torn_bytes: int = 0
    gaps: list[Gap] = []
    snapshots: dict[int, bool] = {}
    missing_blobs: list[str] = []
    vanished: int = 0
    """The number of events missing at the end that the catalogue has seen in this very log."""
    repairs: list[Repair] = []
    """The losses found by earlier repairs. The log is consistent without them, so it may be ok."""
    damage: str = ""
    """A description of problems with the storage of the log, other than gaps in it."""
    checksummed: bool = True
    """False for a plain log, whose lines can only be parsed, not verified."""
    sealed: bool = False
    opened: bool = True
    """False for a sealed log without its key: only its checksums could be compared."""
    tampered: list[TamperedPlace] = []
    head: str = ""
    """A digest of all events that are there now; empty if there are none, or one is damaged.

    Kept elsewhere, it shows later whether all of them are still there, unchanged.
    """
    kept: bool | None = None
    """True if all events up to an earlier head are still there, unchanged; None if no head was given."""

    @property
    def lost_events(self) -> int:
        """The number of events that are known to be missing."""
        return sum(gap.last_seq - gap.first_seq + 1 for gap in self.gaps)

    def explain(self) -> list[str]:
        """Return the findings in plain words, one sentence each."""
        return list(_explain(self))


def verify_log(session_id: str, log: Log, documents: Documents, *, head: str | None = None) -> Report:
    """Check every byte and report what is intact. Changes nothing.

    ``head`` is that of an earlier report: the log must still begin with those events. Raises
    UsageError if it is not a head.
    """
    report = _verify_once(session_id, log, documents, _Heads(head))
    for _ in range(_LOOKS_MAX):
        if not report.gaps:
            break
        # A writer may have cut off and rewritten what had been read before: look again.
        before, report = report, _verify_once(session_id, log, documents, _Heads(head))
        if report.gaps == before.gaps:
            break
    return report


class _Reading(msgspec.Struct):
    """The findings of reading every byte of a log."""

    position: Position = START
    torn: int = 0
    gaps: list[Gap] = []
    events: int = 0
    size_bytes: int = 0
    missing: set[str] = set()
    repairs: list[Repair] = []
    tampered: list[TamperedPlace] = []
    checksummed: bool = True
    sealed: bool = False

    def take(self, events: list[Event], documents: Documents) -> None:
        self.events += len(events)
        self.missing.update(_missing_blobs(events, documents))
        self.repairs += _repairs(events)


def _verify_once(session_id: str, log: Log, documents: Documents, heads: _Heads) -> Report:
    # Read before the log, because a writer may go on meanwhile.
    settled, newest = log.settled(), None
    with contextlib.suppress(HoldfastError):
        newest = Snapshots(documents).newest()
    marks = _marks(Snapshots(documents))
    # The intact snapshots that have a digest of the log before them, oldest first.
    prefixes = {seq: mark for seq, mark in reversed(marks.items()) if mark is not None and mark[1]}
    chain = heads.chain(prefixes)
    try:
        read = (_read_plain if log.unseal is None else _read_sealed)(log, documents, chain)
    except KeyMissing:
        return _verify_closed(session_id, log, heads)
    position = read.position
    snapshots = {seq: mark is not None and mark[0] <= position.offset for seq, mark in marks.items()}
    damage = log.damage()
    if log.unseal is None and read.torn and not read.events and not damage:
        from holdfast.session._branches import is_foreign

        damage = _FOREIGN if is_foreign(log) else damage
    tampered = read.tampered + ([] if read.gaps else _check_prefixes(prefixes, chain))
    gaps = read.gaps
    # The log had more at its end once.
    if not gaps and not (damage and log.unseal is None):
        ahead = None
        if newest is not None and newest.offset > position.offset:
            with contextlib.suppress(SecurityError, TooNew):
                ahead = load(log, documents, tolerant=True, begun=True).ahead
        loss = find_loss(log, position, read.torn, settled=settled, ahead=ahead)
        gaps = [] if loss is None else [loss]
    report = Report(
        session_id=session_id,
        ok=not (gaps or read.missing or damage or tampered) and all(snapshots.values()),
        events=read.events,
        size_bytes=read.size_bytes,
        torn_bytes=read.torn,
        gaps=gaps,
        snapshots=snapshots,
        missing_blobs=sorted(read.missing),
        repairs=read.repairs,
        damage=damage,
        checksummed=read.checksummed,
        sealed=read.sealed,
        tampered=tampered,
    )
    return heads.told(report, chain, log, position.offset)


def _read_plain(log: Log, documents: Documents, chain: PrefixChain) -> _Reading:
    read, reader = _Reading(), LineReader()
    for chunk in log.read():
        chain.feed(chunk)
        read.take(reader.feed(chunk), documents)
    read.take(reader.finish(), documents)
    read.position, read.torn, read.gaps = reader.position, reader.torn, reader.gaps
    read.size_bytes, read.checksummed = log.size(), reader.chained
    return read


def _read_sealed(log: Log, documents: Documents, chain: PrefixChain) -> _Reading:
    from holdfast.model import salvage

    assert log.unseal is not None
    data = b"".join(log.read())
    found = salvage(data, START, chained=False)
    events, tampered = _open_each(found, log.unseal)
    chain.feed(data)
    is_sealed = not events or any(line.type is None for line in found.lines)
    read = _Reading(found.position, found.torn, found.gaps, size_bytes=len(data), tampered=tampered, sealed=is_sealed)
    read.take(events, documents)
    return read


class _Repaired(msgspec.Struct):
    gaps: list[Gap] = []


def _repairs(events: list[Event]) -> Iterator[Repair]:
    for event in events:
        if event.type == "repaired":
            with contextlib.suppress(msgspec.DecodeError):
                gaps = msgspec.json.decode(event.raw, type=_Repaired).gaps
                if gaps:
                    yield Repair(seq=event.seq, timestamp=event.timestamp, gaps=gaps)


class _Heads:
    """The head of a log, and whether it still has the events of an earlier one."""

    def __init__(self, noted: str | None) -> None:
        match = None if noted is None else _HEAD.fullmatch(noted)
        if noted is not None and match is None:
            raise UsageError(f"{noted[:80]!r} is not a head, as verify tells it")
        self._noted = None if match is None else (int(match.group(1)), match.group(2))

    def chain(self, prefixes: dict[int, tuple[int, str]]) -> PrefixChain:
        offsets = [offset for offset, _ in prefixes.values()]
        return PrefixChain(offsets if self._noted is None else [*offsets, self._noted[0]])

    def told(self, report: Report, chain: PrefixChain, log: Log, end: int) -> Report:
        """Return the report with its heads; ``end`` is where the last event ends."""
        head = ""
        if end and not report.gaps:
            digest = prefix_digest(log, end, "", 0)[0] if report.torn_bytes else chain.digest_here()
            head = f"{end}-{digest}"
        if self._noted is None:
            return msgspec.structs.replace(report, head=head)
        offset, digest = self._noted
        kept = chain.digests.get(offset) == digest
        return msgspec.structs.replace(report, head=head, kept=kept, ok=report.ok and kept)


def _verify_closed(session_id: str, log: Log, heads: _Heads) -> Report:
    """Check a sealed log without its key: its checksums are all that can be compared."""
    from holdfast.model import salvage

    data = b"".join(log.read())
    found = salvage(data, START, chained=False)
    chain = heads.chain({})
    chain.feed(data)
    damage = log.damage()
    report = Report(
        session_id=session_id,
        ok=not (found.gaps or damage),
        events=len(found.lines),
        size_bytes=log.size(),
        torn_bytes=found.torn,
        gaps=found.gaps,
        damage=damage,
        sealed=True,
        opened=False,
    )
    return heads.told(report, chain, log, found.position.offset)


def _open_each(found: Salvage, unseal: Unseal) -> tuple[list[Event], list[TamperedPlace]]:
    """Open every line by itself; return the events that open, and what does not."""
    events: list[Event] = []
    tampered: list[TamperedPlace] = []
    before: bytes | None = BEFORE_ALL
    who, next_seq, more = "", 0, []
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        try:
            event = open_line(line, unseal, before if line.seq == next_seq else None)
        except (Tampered, Damaged) as error:
            what = error.message.removeprefix(f"event {line.seq} ")
            tampered.append(TamperedPlace(what=what, seq=line.seq, offset=start, size=stop - start, who=who))
            more.append(False)
        else:
            events.append(event)
            who = _opened_by(event) or who
            more.append(event.more)
        next_seq = line.seq + 1
        before = end_of(line)
    found.trim(more)
    end = len(found.lines)
    return [event for event in events if event.seq < next_seq - (len(more) - end)], tampered


class _Opened(msgspec.Struct):
    pid: int = 0
    host: str = ""
    epoch: int = 0


def _opened_by(event: Event) -> str:
    if event.type != "opened":
        return ""
    try:
        found = msgspec.json.decode(bytes(event.raw), type=_Opened)
    except msgspec.DecodeError:
        return ""
    return f"process {found.pid} on {found.host}, opening {found.epoch}"


def _marks(snapshots: Snapshots) -> dict[int, tuple[int, str] | None]:
    """Return where each snapshot was taken, and the digest of the log before it; None if it is not intact.

    Call it before the log is read. It reads newest first: a writer that goes on takes newer ones, which know
    more than was read, and drops the oldest. Those are left out.
    """
    found: dict[int, tuple[int, str] | None] = {}
    for seq in snapshots.seqs():
        try:
            snapshot = snapshots.load(seq)
        except HoldfastError:
            if seq in snapshots.seqs():
                found[seq] = None
        else:
            found[seq] = snapshot.offset, snapshot.prefix
    return found


def _check_prefixes(prefixes: dict[int, tuple[int, str]], chain: PrefixChain) -> list[TamperedPlace]:
    """Compare the beginning of the log with the digest of each snapshot; return the first that differs."""
    good = 0
    for seq, (offset, prefix) in prefixes.items():
        digest = chain.digests.get(offset)
        if digest not in (None, prefix):
            what = "or one before it is not what it was when its snapshot was taken"
            return [TamperedPlace(what=what, seq=seq, offset=good, size=offset - good)]
        good = offset
    return []


def _missing_blobs(events: list[Event], documents: Documents) -> Iterator[str]:
    for event in events:
        for name in references(event.data) if has_blob(bytes(event.raw)) else ():
            found = None
            with contextlib.suppress(Tampered, KeyMissing):
                found = documents.get(f"blobs/{name}")
            if found is None or blob_name(found[0]) != name:
                yield name


def _explain(report: Report) -> Iterator[str]:
    yield f"{report.events:,} events in {report.size_bytes:,} bytes."
    if not report.opened:
        yield "The session is sealed and its key is not available: only checksums could be compared."
    for one in report.tampered:
        where = f"({one.size:,} bytes from byte {one.offset:,} on)"
        by = f" It stands in what was written by {one.who}." if one.who else ""
        yield f"Tampered with: event {one.seq} {where} {one.what}.{by}"
    yield from map(_explain_gap, report.gaps)
    lost_end = any(gap.at_end for gap in report.gaps)
    if report.damage:
        yield f"{report.damage} What is whole of the log is read."
    elif report.torn_bytes and not lost_end:
        yield (
            f"The last {report.torn_bytes:,} bytes are an unfinished write, as a crash leaves it;"
            " nothing that was acknowledged is in them. The next writer sets them aside."
        )
    if report.vanished:
        accept = "`holdfast repair`" if lost_end else "`holdfast reindex`"
        yield (
            f"The last {report.vanished:,} events that the catalogue has seen here are missing:"
            f" the log is shorter than it was. If that is as it should be, accept it with {accept}."
        )
    if report.kept is False:
        yield (
            "It does not begin any more with what was there when the head was noted: it was put"
            " back to an earlier state, or written anew, as repair, redact, encrypt, decrypt and"
            " rotate do."
        )
    for name in report.missing_blobs:
        yield f"The payload {name[:12]}… is missing or damaged; its event is there without it."
    bad = [str(seq) for seq, whole in report.snapshots.items() if not whole]
    if bad:
        yield f"Snapshots that are not whole and will be passed over: {', '.join(bad)}."
    if not report.checksummed and report.events:
        yield "This is a plain log without checksums: its lines could only be parsed."
    for repair in report.repairs:
        lost = "; ".join(f"{gap.size:,} bytes{_numbers(gap)}" for gap in repair.gaps)
        yield f"It was damaged, and repaired with event {repair.seq}: {lost} are lost for good."
    if report.ok:
        yield "Everything that is there is whole." if report.repairs else "Everything is whole."


def _numbers(gap: Gap) -> str:
    count = gap.last_seq - gap.first_seq + 1
    if count <= 0:
        return ""
    if gap.at_end:
        events = "event" if count == 1 else "events"
        return f" (at least {count:,} {events} from {gap.first_seq} on)"
    return f" (event {gap.first_seq}{f' to {gap.last_seq}' if count > 1 else ''})"


def _explain_gap(gap: Gap) -> str:
    if gap.at_end:
        where = f"{gap.size:,} bytes from byte {gap.offset:,} on are lost, which had been safe"
        left = "Everything before can be read." if gap.first_seq else "No event is left."
        return f"{where}{_numbers(gap)}. {left}"
    count = gap.last_seq - gap.first_seq + 1
    where = f"{gap.size:,} bytes from byte {gap.offset:,} on are damaged"
    if count <= 0:
        return f"{where}; no event is missing."
    names = str(gap.first_seq) if count == 1 else f"{gap.first_seq} to {gap.last_seq}"
    return f"{where}: event {names} cannot be read. Everything before and after can."
