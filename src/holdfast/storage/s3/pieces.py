"""Which objects a log in a bucket consists of: what is in them, their names, and their order.

A log's objects are numbered without a gap. Small ones are put together into packs: always the same
numbers, in blocks, so that whoever packs at the same time as another one, late or early, makes the
same packs or wider ones, and no pack ever overlaps another in part. Nothing here asks the bucket.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from holdfast.errors import Damaged
from holdfast.storage.s3.objects import ListedObject

__all__ = [
    "BLOCK",
    "HEAD_BYTES",
    "PACK_BYTES",
    "ObjectPiece",
    "end_of",
    "epoch_of",
    "framed",
    "frames",
    "groups",
    "lined_up",
    "log_name",
    "log_piece",
    "log_pieces",
    "next_number",
    "pack_name",
    "pack_pieces",
]

_MAGIC = b"HFL1"
HEAD_BYTES = 24
PACK_BYTES = 8 << 20
BLOCK = 64
_NUMBER = re.compile(r"[0-9]{12}", re.ASCII)
_HEX = re.compile(rb"[0-9a-f]{16}")
# No pack is larger than a session may be: a name cannot ask for more memory than that.
_PACK = re.compile(r"([0-9]{12})-([0-9]{12})-([0-9]{1,10})-([pz])", re.ASCII)


class ObjectPiece(NamedTuple):
    """Bytes ``start`` to ``start + size`` of a log: objects ``first`` to ``last``, in one place."""

    first: int
    last: int
    size: int
    path: str
    skip: int = 0
    """So many bytes of the object come before the log's: none in a pack."""
    packed: bool = False
    start: int = 0
    """Known once all pieces are lined up."""


def next_number(pieces: list[ObjectPiece]) -> int:
    """The number of the object after these."""
    return pieces[-1].last + 1 if pieces else 0


def end_of(pieces: list[ObjectPiece]) -> int:
    """How many bytes the log has that consists of these."""
    return pieces[-1].start + pieces[-1].size if pieces else 0


def framed(epoch: int, data: bytes) -> bytes:
    """The bytes of an object: which epoch wrote it, and what."""
    return _MAGIC + b"%016x" % epoch + b"\n\n\n\n" + data


def epoch_of(data: bytes) -> int:
    """The epoch that wrote an object. Raises Damaged."""
    text = data[len(_MAGIC) : len(_MAGIC) + 16]
    if data[: len(_MAGIC)] != _MAGIC or not _HEX.fullmatch(text):
        raise Damaged("an object of a log does not begin as one")
    return int(text, 16)


def log_name(number: int) -> str:
    """What the object of a number is called."""
    return f"{number:012d}"


def pack_name(first: int, last: int, size: int, *, compressed: bool) -> str:
    """What a pack of the objects ``first`` to ``last`` is called, which have so many bytes."""
    return f"{first:012d}-{last:012d}-{size}-{'z' if compressed else 'p'}"


def log_piece(number: int, size: int, path: str) -> ObjectPiece:
    """The piece that the object of a number is, with so many bytes of the log."""
    return ObjectPiece(number, number, size, path, HEAD_BYTES)


def log_pieces(listed: Iterable[ListedObject]) -> list[ObjectPiece]:
    """What is listed of a log's objects; what is not ours is passed over."""
    found = []
    for one in listed:
        name = one.path.rpartition("/")[2]
        if _NUMBER.fullmatch(name):
            found.append(log_piece(int(name), max(0, one.size - HEAD_BYTES), one.path))
    return found


def pack_pieces(listed: Iterable[ListedObject]) -> list[ObjectPiece]:
    """What is listed of a log's packs; what is not ours is passed over."""
    found = []
    for one in listed:
        name = _PACK.fullmatch(one.path.rpartition("/")[2])
        if name is not None:
            first, last, size = (int(name[number]) for number in (1, 2, 3))
            found.append(ObjectPiece(first, last, size, one.path, packed=name[4] == "z"))
    return found


def lined_up(objects: list[ObjectPiece]) -> list[ObjectPiece]:
    """The objects in their order, without those whose numbers a pack covers."""
    packs = sorted((one for one in objects if not one.skip), key=lambda one: (one.first, -one.last))
    kept: list[ObjectPiece] = []
    end = -1
    for one in packs:  # a wider pack covers the narrower ones that it was made of
        if one.last > end:
            kept.append(one)
            end = one.last
    loose = [one for one in objects if one.skip]
    firsts = [one.first for one in kept]

    def is_covered(number: int) -> bool:
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= kept[at].last

    ordered = sorted(
        [*kept, *(one for one in loose if not is_covered(one.first))], key=lambda one: one.first
    )
    pieces: list[ObjectPiece] = []
    start = 0
    for one in ordered:
        pieces.append(one._replace(start=start))
        start += one.size
    return pieces


def frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes in pieces of the size of a pack."""
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PACK_BYTES:
            yield waiting[:PACK_BYTES]
            waiting = waiting[PACK_BYTES:]
    if waiting:
        yield waiting


def groups(pieces: list[ObjectPiece], *, archive: bool) -> Iterator[list[ObjectPiece]]:
    """Neighbours that become a pack: whole blocks, and in an archive several of them together.

    In an archive the last block, which is not whole yet, becomes one of its own, and is put
    together with what came after it the next time.
    """
    whole = next_number(pieces) // BLOCK
    blocks = [list(block) for _, block in groupby(pieces, key=lambda one: one.first // BLOCK)]
    group: list[ObjectPiece] = []
    for block in blocks:
        is_whole = block[-1].last // BLOCK < whole
        if not archive:
            size = sum(one.size for one in block)
            loose = [one for one in block if one.skip and one.size]
            if is_whole and size <= PACK_BYTES and len(loose) > 1:
                yield block
            continue
        size = sum(one.size for one in (*group, *block))
        if group and (size > PACK_BYTES or not is_whole):
            yield group
            group = []
        group = [*group, *block]
    if group:
        yield group
