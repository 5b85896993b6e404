"""Putting a whole log in a damaged one's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import KeyMissing, SecurityError, Tampered
from holdfast.model import (
    BEFORE_ALL,
    SEAL_END,
    START,
    Gap,
    Salvage,
    encode_line,
    encode_plain_line,
    encode_sealed_line,
    move_line,
    salvage,
)
from holdfast.session._clock import Clock, now_ms
from holdfast.session._loader import Snapshots, find_loss, load
from holdfast.storage import Documents, Log

if TYPE_CHECKING:
    from holdfast.model import AnyLine, Unseal
    from holdfast.security import Sealer

_PIECE_BYTES = 1 << 20


def repair_log(
    log: Log,
    documents: Documents,
    epoch: int,
    clock: Clock = now_ms,
    *,
    sealer: Callable[[], Sealer | None] | None = None,
    lost_whole: Callable[[], Gap | None] = lambda: None,
) -> list[Gap]:
    """Write a new generation that holds every whole line and a note where one is missing.

    The lines themselves are moved as they are, with new checksums; those of a sealed log are
    sealed again with what ``sealer`` gives, and those that were tampered with count as missing. The
    old bytes go to quarantine. Returns what was missing. Killed at any moment, the log is the old
    one or the new one. ``lost_whole`` is asked what others saw in a log that has no event and of
    which nothing else is known. Raises KeyMissing for a sealed log without its key.
    """
    settled = log.settled()
    old = b"".join(log.read())
    found = salvage(old, START, chained=False)
    loss = None if found.gaps else _loss(log, documents, found, settled)
    if loss is None and not found.lines and not found.gaps:
        loss = lost_whole()
    if loss is not None:
        found.gaps.append(loss)
    is_sealed = any(line.sealed is not None and line.type is None for line in found.lines)
    is_sealed = is_sealed or (loss is not None and not found.lines)
    if log.unseal is not None and (is_sealed or not _may_be_plain(log.unseal, found)):
        return _repair_sealed(log, documents, found, sealer, epoch=epoch, now=clock())
    if is_sealed and found.lines:
        raise KeyMissing("a sealed session is repaired with its key")
    snapshots = Snapshots(documents)
    snapshots.drop_beyond(found.position.offset)
    snapshots.drop_damaged()
    if not found.gaps:
        return []
    # Before the log: a snapshot must never know more than the log that it belongs to.
    snapshots.drop_after(-1)
    log.replace(gather(_new_lines(old, found, clock())), epoch)
    return found.gaps


def _loss(log: Log, documents: Documents, found: Salvage, settled: int) -> Gap | None:
    """What is missing at the log's end, as far as it is known that it was there."""
    try:
        ahead = load(log, documents, tolerant=True, begun=True).ahead
    except SecurityError:
        ahead = None  # a line that does not open is for the repair to leave out
    return find_loss(log, found.position, found.torn, settled=settled, ahead=ahead)


def _may_be_plain(unseal: Unseal, found: Salvage) -> bool:
    """Whether the log may be in the clear: its sealing was broken off before it came to it."""
    sealed_from: int = getattr(unseal, "sealed_from", 0)
    return found.position.seq <= sealed_from


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
        text, crc, is_summed = move_line(old[start:stop], crc)
        chained = chained or is_summed
        yield text
        seq = line.seq + 1
    gaps = [msgspec.to_builtins(gap) for gap in found.gaps]
    data = {"generation": next_generation(found), "gaps": gaps}
    text, _ = encode_line(seq, _note(data, now), crc)
    yield text


def _repair_sealed(
    log: Log, documents: Documents, found: Salvage, sealer: Callable[[], Sealer | None] | None, *, epoch: int, now: int
) -> list[Gap]:
    assert log.unseal is not None
    bodies, gaps = _opened(found, log.unseal)
    snapshots = Snapshots(documents)
    snapshots.drop_beyond(found.position.offset)
    snapshots.drop_damaged()
    if not gaps:
        return []
    anew = None if sealer is None else sealer()
    if anew is None:
        raise KeyMissing("a sealed session is repaired with its key")
    snapshots.drop_after(-1)
    last = max(bodies, default=-1)
    generation = 1 + max(map(_generation_of, bodies.values()), default=0)
    data = {"generation": generation, "gaps": [msgspec.to_builtins(gap) for gap in gaps]}
    for lost in set(range(last)) - set(bodies):
        bodies[lost] = _note({"lost": lost}, now)
    bodies[last + 1] = _note(data, now)
    log.replace(gather(sealed_lines(iter(sorted(bodies.items())), anew)), epoch)
    return gaps


def _opened(found: Salvage, unseal: Unseal) -> tuple[dict[int, bytes], list[Gap]]:
    """What can be opened, by its number, and what is missing."""
    bodies: dict[int, bytes] = {}
    gaps = list(found.gaps)
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        try:
            bodies[line.seq] = _opened_body(line, unseal)
        except Tampered:
            gaps.append(Gap(start, stop - start, line.seq, line.seq))
    return bodies, sorted(gaps, key=lambda gap: gap.offset)


def _opened_body(line: AnyLine, unseal: Unseal) -> bytes:
    if line.sealed is None or line.type is not None:
        raise Tampered(seq=line.seq)
    return unseal(line.seq, line.sealed, None)


def sealed_lines(bodies: Iterator[tuple[int, bytes]], sealer: Sealer) -> Iterator[bytes]:
    """The lines of a whole sealed log, of the members of its events."""
    crc, before = 0, BEFORE_ALL
    for seq, body in bodies:
        sealed = sealer.seal(seq, body, before)
        before = sealed[-SEAL_END:]
        line, crc = encode_sealed_line(seq, sealed, crc)
        yield line


def _generation_of(body: bytes) -> int:
    if not body.startswith((b'"type":"session_start"', b'"type":"repaired"')):
        return 0
    try:
        return msgspec.json.decode(b"{%b}" % body, type=_Noted).data.generation
    except msgspec.DecodeError:
        return 0


def _filler(seq: int, now: int, crc: int, *, chained: bool) -> tuple[bytes, int]:
    """A note in the place of a lost event, so that all others keep their numbers."""
    body = _note({"lost": seq}, now)
    return encode_line(seq, body, crc) if chained else encode_plain_line(body, crc)


def _note(data: dict[str, Any], now: int) -> bytes:
    return b'"type":"repaired","timestamp":%d,"data":%b' % (now, msgspec.json.encode(data))


class _Generation(msgspec.Struct):
    generation: int = 0


class _Noted(msgspec.Struct):
    data: _Generation


def next_generation(found: Salvage) -> int:
    """One more than the newest generation that the log itself speaks of."""
    newest = 0
    for line in found.lines:
        if line.type in ("session_start", "repaired"):
            try:
                newest = max(newest, msgspec.json.decode(line.data, type=_Generation).generation)
            except msgspec.DecodeError:
                continue
    return newest + 1


def gather(lines: Iterable[bytes]) -> Iterator[bytes]:
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
