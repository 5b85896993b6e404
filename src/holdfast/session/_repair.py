"""Looking at a log as it is on the medium, and putting a whole one in a damaged one's place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, HoldfastError
from holdfast.model import (
    BLOB_KEY,
    START,
    Event,
    Gap,
    LineReader,
    Salvage,
    blob_name,
    encode_line,
    is_reference,
    salvage,
)
from holdfast.session._clock import Clock, now_ms
from holdfast.session._snapshots import Snapshots
from holdfast.storage import Documents, Log

__all__ = ["Report", "repair_log", "verify_log"]

_CRC_SHAPE = b',"crc":"'
_TRAILER_BYTES = 18  # from the comma before "crc" to the closing brace
_PIECE_BYTES = 1 << 20


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at every byte of a session found."""

    session_id: str = ""
    ok: bool = True
    events: int = 0
    size_bytes: int = 0
    torn_bytes: int = 0
    gaps: list[Gap] = []
    snapshots: dict[int, bool] = {}
    missing_blobs: list[str] = []
    vanished: int = 0
    """How many events at the end are missing that the catalogue has seen in this very log."""
    damage: str = ""
    """What is wrong with how the log is kept, beyond the gaps in it."""
    checksummed: bool = True
    """False for a plain log, whose lines can only be parsed, not verified."""

    @property
    def lost_events(self) -> int:
        """How many events are known to be missing."""
        return sum(gap.last_seq - gap.first_seq + 1 for gap in self.gaps)

    def explain(self) -> list[str]:
        """The findings in plain words, one sentence each."""
        return list(_explain(self))


def verify_log(session_id: str, log: Log, documents: Documents) -> Report:
    """Read everything and say what is whole. Changes nothing."""
    reader = LineReader()
    count = 0
    missing: set[str] = set()
    for events in _batches(reader, log):
        count += len(events)
        missing.update(_missing_blobs(events, documents))
    snapshots = _check_snapshots(Snapshots(documents), reader.position.offset)
    damage = log.damage()
    return Report(
        session_id=session_id,
        ok=not (reader.gaps or missing or damage) and all(snapshots.values()),
        events=count,
        size_bytes=log.size(),
        torn_bytes=reader.torn,
        gaps=reader.gaps,
        snapshots=snapshots,
        missing_blobs=sorted(missing),
        damage=damage,
        checksummed=reader.chained,
    )


def repair_log(log: Log, documents: Documents, epoch: int, clock: Clock = now_ms) -> list[Gap]:
    """Write a new generation that holds every whole line and a note where one is missing.

    The lines themselves are moved as they are, with new checksums; the old bytes go to quarantine.
    Returns what was missing. Killed at any moment, the log is the old one or the new one.
    """
    old = b"".join(log.read())
    found = salvage(old, START, chained=False)
    snapshots = Snapshots(documents)
    snapshots.drop_beyond(found.position.offset)
    snapshots.drop_damaged()
    if not found.gaps:
        return []
    # Before the log: a snapshot must never know more than the log that it belongs to.
    snapshots.drop_after(-1)
    log.replace(_pieces(_new_lines(old, found, clock())), epoch)
    return found.gaps


def _new_lines(old: bytes, found: Salvage, now: int) -> Iterator[bytes]:
    """The lines of the new generation, each with the checksum that its place gives it."""
    crc = 0
    seq = 0
    chained = False
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        assert line.seq is not None
        for lost in range(seq, line.seq):
            text, crc = _filler(lost, now, crc, chained=chained)
            yield text
        text = old[start:stop].rstrip(b"\n")
        body = _body(text)
        chained = chained or body is not None
        text, crc = _moved(text, body, crc)
        yield text
        seq = line.seq + 1
    gaps = [msgspec.to_builtins(gap) for gap in found.gaps]
    data = {"generation": _generation(found) + 1, "gaps": gaps}
    text, _ = encode_line(seq, _note(data, now), crc)
    yield text


def _body(text: bytes) -> bytes | None:
    """A line's members from after the brace to before its checksum; None for a plain line."""
    if text[-_TRAILER_BYTES:][: len(_CRC_SHAPE)] != _CRC_SHAPE:
        return None
    return text[1:-_TRAILER_BYTES]


def _moved(text: bytes, body: bytes | None, crc: int) -> tuple[bytes, int]:
    if body is None:
        text += b"\n"
        return text, crc32(text, crc)
    # The line's own seq is part of its body: everything but the checksum stays as it was.
    head = b"{" + body + _CRC_SHAPE
    crc = crc32(head, crc)
    tail = b'%08x"}\n' % crc
    return head + tail, crc32(tail, crc)


def _filler(seq: int, now: int, crc: int, *, chained: bool) -> tuple[bytes, int]:
    """A note in the place of a lost event, so that all others keep their numbers."""
    body = _note({"lost": seq}, now)
    if chained:
        return encode_line(seq, body, crc)
    text = b"{%b}\n" % body
    return text, crc32(text, crc)


def _note(data: dict[str, Any], now: int) -> bytes:
    return b'"type":"repaired","timestamp":%d,"data":%b' % (now, msgspec.json.encode(data))


class _Generation(msgspec.Struct):
    generation: int = 0


def _generation(found: Salvage) -> int:
    """The newest generation that the log itself speaks of."""
    newest = 0
    for line in found.lines:
        if line.type in ("session_start", "repaired"):
            try:
                newest = max(newest, msgspec.json.decode(line.data, type=_Generation).generation)
            except msgspec.DecodeError:
                continue
    return newest


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines gathered into pieces that are worth a write."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _batches(reader: LineReader, log: Log) -> Iterator[list[Event]]:
    for chunk in log.read():
        yield reader.feed(chunk)
    yield reader.finish()


def _missing_blobs(events: list[Event], documents: Documents) -> Iterator[str]:
    for event in events:
        if b'"$blob":' in bytes(event.raw):
            for name in _references(event.data):
                found = documents.get(f"blobs/{name}")
                if found is None or blob_name(found[0]) != name:
                    yield name


def _references(value: Any) -> Iterator[str]:
    if is_reference(value):
        yield value[BLOB_KEY]
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _check_snapshots(snapshots: Snapshots, end: int) -> dict[int, bool]:
    found = {}
    for seq in snapshots.seqs():
        try:
            found[seq] = snapshots.load(seq).offset <= end
        except Damaged:
            found[seq] = False
        except HoldfastError:
            found[seq] = False
    return found


def _explain(report: Report) -> Iterator[str]:
    yield f"{report.events:,} events in {report.size_bytes:,} bytes."
    for gap in report.gaps:
        yield _explain_gap(gap)
    if report.damage:
        yield f"{report.damage} What is whole of the log is read."
    elif report.torn_bytes:
        yield (
            f"The last {report.torn_bytes:,} bytes are an unfinished write, as a crash leaves it;"
            " nothing that was acknowledged is in them. The next writer sets them aside."
        )
    if report.vanished:
        yield (
            f"The last {report.vanished:,} events that the catalogue has seen here are missing:"
            " the log is shorter than it was. If that is as it should be, accept it with"
            " `holdfast reindex`."
        )
    for name in report.missing_blobs:
        yield f"The payload {name[:12]}… is missing or damaged; its event is there without it."
    bad = [str(seq) for seq, whole in report.snapshots.items() if not whole]
    if bad:
        yield f"Snapshots that are not whole and will be passed over: {', '.join(bad)}."
    if not report.checksummed and report.events:
        yield "This is a plain log without checksums: its lines could only be parsed."
    if report.ok:
        yield "Everything is whole."


def _explain_gap(gap: Gap) -> str:
    count = gap.last_seq - gap.first_seq + 1
    where = f"{gap.size:,} bytes from byte {gap.offset:,} on are damaged"
    if count <= 0:
        return f"{where}; no event is missing."
    names = str(gap.first_seq) if count == 1 else f"{gap.first_seq} to {gap.last_seq}"
    return f"{where}: event {names} cannot be read. Everything before and after can."
