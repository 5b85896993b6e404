"""Replacing a damaged log by a valid one."""

from __future__ import annotations

import contextlib
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
    from holdfast.model import Unseal
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
    """Write a new generation with every complete line and a note for each missing one.

    The lines themselves are copied unchanged, with new checksums; those of a sealed log are sealed again with
    ``sealer``, and those that were tampered with count as missing. The old bytes go to quarantine. Returns what
    was missing. If it is killed at any moment, the log is the old one or the new one. ``lost_whole`` returns what
    others saw in a log that has no event and of which nothing else is known. Raises KeyMissing for a sealed log
    without its key.
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
    if is_sealed and log.unseal is None:
        raise KeyMissing("a sealed session is repaired with its key")
    bodies: dict[int, bytes] | None = None
    gaps = found.gaps
    # Without a sealed line it may be plain: its sealing was interrupted before the log was rewritten.
    may_be_plain = found.position.seq <= getattr(log.unseal, "sealed_from", 0)
    if log.unseal is not None and (is_sealed or (loss is not None and not found.lines) or not may_be_plain):
        bodies, gaps = _opened(found, log.unseal)
    snapshots = Snapshots(documents)
    snapshots.drop_useless(found.position.offset)
    if not gaps:
        return []
    if bodies is None:
        lines = _new_lines(old, found, clock())
    else:
        anew = None if sealer is None else sealer()
        if anew is None:
            raise KeyMissing("a sealed session is repaired with its key")
        lines = sealed_lines(_noted_bodies(bodies, gaps, clock()), anew)
    # Before the log: a snapshot must never know more than the log that it belongs to.
    snapshots.drop_all()
    log.replace(gather(lines), epoch)
    return gaps


def _loss(log: Log, documents: Documents, found: Salvage, settled: int) -> Gap | None:
    """Return the known loss at the log's end."""
    try:
        ahead = load(log, documents, tolerant=True, begun=True).ahead
    except SecurityError:
        ahead = None  # a line that does not open is left out by the repair
    return find_loss(log, found.position, found.torn, settled=settled, ahead=ahead)


def _new_lines(old: bytes, found: Salvage, now: int) -> Iterator[bytes]:
    """Yield the lines of the new generation, each with the checksum of its place."""
    crc, seq, chained = 0, 0, False
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        assert line.seq is not None
        for lost in range(seq, line.seq):
            # In place of a lost event, so that all others keep their numbers.
            body = _note({"lost": lost}, now)
            text, crc = encode_line(lost, body, crc) if chained else encode_plain_line(body, crc)
            yield text
        text, crc, is_summed = move_line(old[start:stop], crc)
        chained = chained or is_summed
        yield text
        seq = line.seq + 1
    told = (b'"type":"%b","data":%b' % (line.type.encode(), line.data) for line in found.lines if line.type)
    generation = 1 + _newest_generation(told)
    text, _ = encode_line(seq, _note({"generation": generation, "gaps": msgspec.to_builtins(found.gaps)}, now), crc)
    yield text


def _noted_bodies(bodies: dict[int, bytes], gaps: list[Gap], now: int) -> Iterator[tuple[int, bytes]]:
    """Yield what could be opened of a sealed log, in order, with notes of what could not."""
    last = max(bodies, default=-1)
    generation = 1 + _newest_generation(bodies.values())
    notes = {lost: _note({"lost": lost}, now) for lost in set(range(last)) - set(bodies)}
    notes[last + 1] = _note({"generation": generation, "gaps": msgspec.to_builtins(gaps)}, now)
    return iter(sorted((bodies | notes).items()))


def _opened(found: Salvage, unseal: Unseal) -> tuple[dict[int, bytes], list[Gap]]:
    """Return the bodies that open, by number, and the gaps."""
    bodies: dict[int, bytes] = {}
    gaps = list(found.gaps)
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        try:
            if line.sealed is None or line.type is not None:
                raise Tampered(seq=line.seq)
            bodies[line.seq] = unseal(line.seq, line.sealed, None)
        except Tampered:
            gaps.append(Gap(start, stop - start, line.seq, line.seq))
    return bodies, sorted(gaps, key=lambda gap: gap.offset)


def sealed_lines(bodies: Iterator[tuple[int, bytes]], sealer: Sealer) -> Iterator[bytes]:
    """Yield the lines of a complete sealed log, from the bodies of its events."""
    crc, before = 0, BEFORE_ALL
    for seq, body in bodies:
        sealed = sealer.seal(seq, body, before)
        before = sealed[-SEAL_END:]
        line, crc = encode_sealed_line(seq, sealed, crc)
        yield line


def _note(data: dict[str, Any], now: int) -> bytes:
    return b'"type":"repaired","timestamp":%d,"data":%b' % (now, msgspec.json.encode(data))


class _Generation(msgspec.Struct):
    generation: int = 0


class _Noted(msgspec.Struct):
    data: _Generation


def _newest_generation(bodies: Iterable[bytes]) -> int:
    newest = 0
    for body in bodies:
        if body.startswith((b'"type":"session_start"', b'"type":"repaired"')):
            with contextlib.suppress(msgspec.DecodeError):
                newest = max(newest, msgspec.json.decode(b"{%b}" % body, type=_Noted).data.generation)
    return newest


def gather(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines gathered into pieces that are worth a write."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
