"""A log in a bucket: objects numbered without a gap, each made only if there is none.

Every object says in its head which epoch wrote it. Whoever takes the lease first puts an empty
object of the new epoch at the end: a fence. A writer that lost the lease tries to make an object of
that number, finds that there is one, and is fenced; so nothing that it sent is ever acknowledged.
Fences are therefore never removed. Small objects are put together into packs when a writer closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast.errors import Damaged, Fenced, StoreError
from holdfast.storage._s3_objects import Objects
from holdfast.storage._sending import Packet
from holdfast.storage._zstd import packed, unpacked

__all__ = ["HEAD_BYTES", "Head", "Pieces", "stale"]

_MAGIC = b"HFL1"
HEAD_BYTES = 24
_PACK_BYTES = 8 << 20
_SMALL_MAX = 64
_TRIES = 1000


class Head(msgspec.Struct, omit_defaults=True):
    """Which generation of the objects counts, and whether they are archived."""

    generation: int = 0
    archived: bool = False
    replaced: int = 0
    """How often the log became another one; a cut writes new objects and leaves it the same."""


class Piece(NamedTuple):
    """Bytes ``start`` to ``start + size`` of a log: objects ``first`` to ``last``, in one place."""

    first: int
    last: int
    start: int
    size: int
    path: str
    skip: int
    """So many bytes of the object come before the log's."""
    packed: bool


class _Object(NamedTuple):
    first: int
    last: int
    size: int
    path: str
    skip: int
    packed: bool


class _Turn(NamedTuple):
    """Where a writer goes on as long as nobody else was there: whoever was, left a fence."""

    generation: int
    number: int
    size: int
    epoch: int


class Pieces:
    """The objects of one log, as far as they are known here."""

    def __init__(self, objects: Objects, folder: str) -> None:
        self._objects = objects
        self.folder = folder
        self._found: dict[int, list[_Object]] = {}
        self._seen: dict[int, str] = {}
        self._turn: _Turn | None = None

    # -- what is there -----------------------------------------------------------------------

    def head(self) -> Head:
        """The head as it is now."""
        return self._head_and_etag()[0]

    def pieces(self, generation: int) -> list[Piece]:
        """What a generation consists of, looked up anew; only what came since is listed."""
        folder = self._log_folder(generation)
        known = self._found.setdefault(generation, [])
        new = self._objects.list(folder, self._seen.get(generation))
        for one in new:
            known.append(_of_log(one.path, one.size))
            self._seen[generation] = one.path
        packs = [
            _of_pack(one.path)
            for one in self._objects.list(f"{self.folder}/pack/{generation:08d}/")
        ]
        return _lined_up([*known, *packs])

    def forget(self) -> None:
        """List everything anew the next time."""
        self._found.clear()
        self._seen.clear()
        self._turn = None

    def size(self) -> int:
        """How many bytes the log has."""
        pieces = self.pieces(self.head().generation)
        return pieces[-1].start + pieces[-1].size if pieces else 0

    def exists(self) -> bool:
        """Whether there is a log, be it an empty one that was put in the place of another."""
        head = self.head()
        return head.generation > 0 or any(one.size for one in self.pieces(0))

    def read(self, start: int) -> Iterator[bytes]:
        """The bytes from an offset on."""
        generation = self.head().generation
        for _ in range(_TRIES):
            piece = next(
                (one for one in self.pieces(generation) if one.start + one.size > start), None
            )
            if piece is None:
                return
            data = self._bytes(piece)
            if data is None:
                # It was put into a pack meanwhile, or the log was replaced.
                self.forget()
                generation = self.head().generation
                continue
            part = data[start - piece.start :]
            start += len(part)
            yield part
        raise Damaged(f"the objects of {self.folder} change faster than they can be read")

    # -- changing it -------------------------------------------------------------------------

    def fence(self, epoch: int) -> None:
        """Put an object of this epoch at the end, whatever else is being written there."""
        generation = self.head().generation
        while True:
            number = self._next(generation)
            if self._create(generation, number, epoch, b"") is None:
                return
            self.forget()

    def append(self, packet: Packet) -> StoreError | None:
        """Store one packet at the end; Fenced if another epoch has written there."""
        turn = self._turn
        if turn is None or turn.epoch != packet.epoch or turn.size != packet.start:
            turn = self._begin(packet)
        if turn is None:
            return stale(packet.key)
        if turn.size != packet.start:
            return None if self._is_stored(turn, packet) else stale(packet.key)
        self._turn = None
        found = self._create(turn.generation, turn.number, packet.epoch, packet.data)
        if found is not None:
            return stale(packet.key)
        size = turn.size + len(packet.data)
        self._turn = _Turn(turn.generation, turn.number + 1, size, packet.epoch)
        return None

    def replace(
        self, chunks: Iterable[bytes], epoch: int, key: str, *, another: bool = True
    ) -> None:
        """Other objects, written in full, and in force once the head says so."""
        head, etag = self._head_and_etag()
        self._check_epoch(head.generation, epoch, key)
        new = head.generation + 1
        self._drop_generation(new)
        number = 0
        for piece in _frames(chunks):
            self._objects.put(self._log_path(new, number), _framed(epoch, piece))
            number += 1
        self._objects.put(self._log_path(new, number), _framed(epoch, b""))
        if not self._put_head(Head(new, replaced=head.replaced + another), etag):
            raise stale(key)
        self.forget()

    def drop_old(self, generation: int) -> None:
        """Remove the data of a generation that no longer counts; its fences stay."""
        data = list(self._objects.list(self._log_folder(generation)))
        packs = list(self._objects.list(f"{self.folder}/pack/{generation:08d}/"))
        self._objects.delete(*[one.path for one in (*data, *packs) if one.size > HEAD_BYTES])

    def compact(self, *, archive: bool = False) -> None:
        """Put small objects together; with ``archive`` all of them, compressed."""
        head, etag = self._head_and_etag()
        pieces = [one for one in self.pieces(head.generation) if one.size]
        loose = pieces if archive else [one for one in pieces if one.skip]
        if archive or len(loose) > _SMALL_MAX:
            for group in _groups(loose):
                self._pack(head.generation, group, compress=archive)
            self.forget()
        if archive:
            self._put_head(Head(head.generation, archived=True, replaced=head.replaced), etag)

    def unarchive(self) -> None:
        """Say that it is not archived; its packs are read as they are."""
        head, etag = self._head_and_etag()
        if head.archived:
            self._put_head(Head(head.generation, replaced=head.replaced), etag)

    # -- inside ------------------------------------------------------------------------------

    def _pack(self, generation: int, group: list[Piece], *, compress: bool) -> None:
        data = b"".join(self._bytes(one) or b"" for one in group)
        if len(data) != sum(one.size for one in group):
            raise Damaged(f"an object of {self.folder} went while it was being packed")
        kind = "z" if compress else "p"
        name = f"{group[0].first:012d}-{group[-1].last:012d}-{len(data)}-{kind}"
        path = f"{self.folder}/pack/{generation:08d}/{name}"
        self._objects.put(path, packed(data) if compress else data)
        # Only now that they are read from the pack do they go. None of them is a fence: those have
        # no bytes. Their numbers are not used again, since the pack has them in its name.
        self._objects.delete(*[one.path for one in group if one.path != path])

    def _bytes(self, piece: Piece) -> bytes | None:
        found = self._objects.get(piece.path)
        if found is None:
            return None
        if piece.packed:
            return unpacked(found.data, piece.size)
        data = found.data[piece.skip :]
        return data if len(data) == piece.size else None

    def _create(self, generation: int, number: int, epoch: int, data: bytes) -> Fenced | None:
        """Make the object of a number; None once it is ours."""
        path = self._log_path(generation, number)
        framed = _framed(epoch, data)
        if not self._objects.create(path, framed):
            found = self._objects.get(path)
            # The answer to a first try may have been lost on the way.
            if found is None or found.data != framed or not data:
                return Fenced("another writer was there first")
        known = self._found.setdefault(generation, [])
        known.append(_Object(number, number, len(data), path, HEAD_BYTES, packed=False))
        self._seen[generation] = path
        return None

    def _begin(self, packet: Packet) -> _Turn | None:
        """Where a writer of this epoch may go on; None if the epoch is over."""
        head, etag = self._head_and_etag()
        if head.archived and not self._put_head(
            Head(head.generation, replaced=head.replaced), etag
        ):
            return None
        self.forget()
        number = self._next(head.generation)
        if self._epoch_of(head.generation) != packet.epoch:
            return None
        return _Turn(head.generation, number, self._end(head.generation), packet.epoch)

    def _is_stored(self, turn: _Turn, packet: Packet) -> bool:
        """Whether an earlier try, whose answer was lost, has stored the packet."""
        if turn.size != packet.start + len(packet.data):
            return False
        data = b"".join(self.read(packet.start))
        if data == packet.data:
            self._turn = turn
        return data == packet.data

    def _next(self, generation: int) -> int:
        pieces = self.pieces(generation)
        return pieces[-1].last + 1 if pieces else 0

    def _end(self, generation: int) -> int:
        pieces = self.pieces(generation)
        return pieces[-1].start + pieces[-1].size if pieces else 0

    def _epoch_of(self, generation: int) -> int:
        """The epoch in force: the last object is a fence, or was written after one."""
        known = self._found[generation]
        last = self._objects.get(known[-1].path) if known else None
        return 0 if last is None else _epoch(last.data)

    def _check_epoch(self, generation: int, epoch: int, key: str) -> None:
        self.pieces(generation)
        if self._epoch_of(generation) != epoch:
            raise stale(key)

    def _head_and_etag(self) -> tuple[Head, str]:
        found = self._objects.get(f"{self.folder}/head")
        if found is None:
            return Head(), ""
        return msgspec.json.decode(found.data, type=Head), found.etag

    def _put_head(self, head: Head, etag: str) -> bool:
        path, data = f"{self.folder}/head", msgspec.json.encode(head)
        done = self._objects.swap(path, data, etag) if etag else self._objects.create(path, data)
        return done or self.head() == head

    def _drop_generation(self, generation: int) -> None:
        """What a replace left that did not come to its end."""
        rest = list(self._objects.list(self._log_folder(generation)))
        self._objects.delete(*[one.path for one in rest])

    def _log_folder(self, generation: int) -> str:
        return f"{self.folder}/log/{generation:08d}/"

    def _log_path(self, generation: int, number: int) -> str:
        return f"{self._log_folder(generation)}{number:012d}"


def stale(key: str) -> Fenced:
    """What a writer gets whose time is over."""
    session_id = key.rpartition("/")[2]
    return Fenced(f"another writer has taken {session_id} over", session_id=session_id)


def _framed(epoch: int, data: bytes) -> bytes:
    return _MAGIC + b"%016x" % epoch + b"\n\n\n\n" + data


def _epoch(data: bytes) -> int:
    if data[: len(_MAGIC)] != _MAGIC:
        raise Damaged("an object of a log does not begin as one")
    return int(data[len(_MAGIC) : len(_MAGIC) + 16], 16)


def _of_log(path: str, size: int) -> _Object:
    number = int(path.rpartition("/")[2])
    return _Object(number, number, max(0, size - HEAD_BYTES), path, HEAD_BYTES, packed=False)


def _of_pack(path: str) -> _Object:
    first, last, length, kind = path.rpartition("/")[2].split("-")
    return _Object(int(first), int(last), int(length), path, 0, packed=kind == "z")


def _lined_up(objects: list[_Object]) -> list[Piece]:
    """The objects in their order, without those whose numbers a pack covers."""
    packs = sorted((one for one in objects if not one.skip), key=lambda one: (one.first, -one.last))
    kept: list[_Object] = []
    end = -1
    for one in packs:  # a wider pack covers the narrower ones that it was made of
        if one.last > end:
            kept.append(one)
            end = one.last
    loose = [one for one in objects if one.skip]
    covered = {n for one in kept for n in range(one.first, one.last + 1)}
    ordered = sorted(
        [*kept, *(one for one in loose if one.first not in covered)], key=lambda one: one.first
    )
    pieces: list[Piece] = []
    start = 0
    for one in ordered:
        pieces.append(Piece(one.first, one.last, start, one.size, one.path, one.skip, one.packed))
        start += one.size
    return pieces


def _frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= _PACK_BYTES:
            yield waiting[:_PACK_BYTES]
            waiting = waiting[_PACK_BYTES:]
    if waiting:
        yield waiting


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Neighbours that fill a pack together."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.size > _PACK_BYTES:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.size
    if group:
        yield group
