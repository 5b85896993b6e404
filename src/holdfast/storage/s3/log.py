"""A log in a bucket: objects numbered without a gap, each created only if it does not exist.

Every object names in its head the epoch that wrote it. A new holder of the lease first puts an empty object of the new
epoch at the end: a fence. A writer that lost the lease tries to create an object of that number, finds that it
exists, and is fenced; so nothing that it sent is ever acknowledged. Fences are therefore never removed.

Small objects are joined into packs, see ``pieces.py``. A pack is stored before its parts are removed.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import NamedTuple
from uuid import uuid4

import msgspec

from holdfast.errors import Damaged, Fenced, HoldfastError, StoreError
from holdfast.storage._deferred import Packet
from holdfast.storage._leases import stale
from holdfast.storage._pieces import packed, rechunked, unpacked
from holdfast.storage.s3.objects import ListedObject, Objects


# The head of a log in a bucket: the one object that says which others count.
class Sealed(Exception):
    """The folder belongs to a removed key: nothing is ever written there again."""


class Head(msgspec.Struct, omit_defaults=True, frozen=True):
    """The objects that count, and the epoch that may write them; every change of it is by compare-and-swap.

    A new holder of the lease puts its epoch here before its fence. So a writer that lost the lease
    cannot activate another generation: the head is no longer the one it began with.
    """

    generation: int = 0
    archived: bool = False
    replaced: int = 0  # how often the log was replaced; a cut writes new objects and does not count
    epoch: int = 0
    place: str = ""  # a folder of its own for each generation: what a late writer puts into its own does not count
    sealed: bool = False
    changed_ms: int = 0  # of an archived log: when it was last changed. Its objects are only as old as the archive.

    @property
    def mark(self) -> str:
        """The name of the folder of this generation."""
        return f"{self.generation:08d}{self.place}"


_TRIES = 20


class _Turn(NamedTuple):
    """The position at which a writer continues if no other writer has been there: that would have left a fence."""

    head: Head
    number: int
    size: int
    epoch: int


class LogObjects:
    """The objects of one log, as far as they are known here."""

    def __init__(self, objects: Objects, folder: str) -> None:
        self._objects = objects
        self.folder = folder
        self._found: dict[str, list[ObjectPiece]] = {}
        self._seen: dict[str, str] = {}
        self._turn: _Turn | None = None
        self._recent: list[bytes] = []

    # -- reading ------------------------------------------------------------------------------
    def head(self) -> Head:
        """Return the current head."""
        return self._read_head()[0]

    def pieces(self, head: Head) -> list[ObjectPiece]:
        """Return the pieces of a generation, refreshed; only new objects are listed."""
        known = self._found.setdefault(head.mark, [])
        listed = list(self._objects.list(self._log_folder(head), self._seen.get(head.mark)))
        known += log_pieces(listed)
        if listed:
            self._seen[head.mark] = listed[-1].path
        # After the others: an object that was packed meanwhile is then found in its pack.
        packs = pack_pieces(self._objects.list(self._pack_folder(head)))
        return lined_up([*known, *packs])

    def pieces_of(self, head: Head, listed: list[ListedObject]) -> list[ObjectPiece]:
        """Return the pieces of a generation, from a list of everything in the folder."""
        loose, packs = self._log_folder(head), self._pack_folder(head)
        found = log_pieces(one for one in listed if one.path.startswith(loose))
        return lined_up(found + pack_pieces(one for one in listed if one.path.startswith(packs)))

    def forget(self) -> None:
        """List everything again the next time."""
        self._found.clear()
        self._seen.clear()
        self._turn = None
        self._recent = []

    def size(self) -> int:
        """Return how many bytes the log has."""
        head = self.head()
        return 0 if head.sealed else end_of(self.pieces(head))

    def exists(self) -> bool:
        """Return whether there is a log, possibly an empty one that replaced another."""
        head = self.head()
        return not head.sealed and (head.generation > 0 or any(one.size for one in self.pieces(head)))

    def read(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset on, as they are when it begins or later."""
        head = self.head()
        tries = 0
        while not head.sealed and tries < _TRIES:
            for piece in self.pieces(head):
                if piece.start + piece.size <= start:
                    continue
                data = self._bytes(piece)
                if data is None:
                    break
                part = data[start - piece.start :]
                start += len(part)
                tries = 0
                yield part
            else:
                return
            # It was packed meanwhile, or the log was replaced: then what was read is the beginning of the old one, and
            # nothing of the new one may follow it.
            tries += 1
            self.forget()
            before, head = head, self.head()
            if head.replaced != before.replaced:
                return
        if not head.sealed:
            raise Damaged(f"an object of {self.folder} is missing")

    # -- changing it -------------------------------------------------------------------------
    def fence(self, epoch: int, key: str) -> bool:
        """Put an object of this epoch at the end; return whether there is a log.

        Raises Fenced if a later epoch was there, Sealed if the key was removed.
        """
        while True:
            head, etag = self._read_head()
            if head.sealed:
                raise Sealed
            if head.epoch > epoch:
                raise stale(key)
            if head.epoch < epoch:
                self._write_head(msgspec.structs.replace(head, epoch=epoch), etag)
                continue
            self.forget()
            pieces = self.pieces(head)
            last = self._epoch_of(head)
            if last is not None and last > epoch:
                raise stale(key)
            if last is not None and self._create(head, next_number(pieces), epoch, b""):
                return head.generation > 0 or any(one.size for one in pieces)

    def seal(self, epoch: int) -> bool:
        """Make sure that nothing is ever written here again; return False if another holder has it by now."""
        head, etag = self._read_head()
        if head.sealed:
            return True
        return head.epoch == epoch and self._write_head(Head(epoch=epoch, sealed=True), etag)

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
        if not self._create(turn.head, turn.number, packet.epoch, packet.data):
            return stale(packet.key)
        size = turn.size + len(packet.data)
        self._turn = _Turn(turn.head, turn.number + 1, size, packet.epoch)
        self._pack_recent(turn, packet.data)
        return None

    def replace(self, chunks: Iterable[bytes], epoch: int, key: str, *, another: bool = True) -> None:
        """Write a complete new generation, which counts once the head names it."""
        head, etag = self._read_head()
        self.forget()
        self.pieces(head)
        if head.sealed or head.epoch != epoch or self._epoch_of(head) != epoch:
            raise stale(key)
        new = Head(head.generation + 1, replaced=head.replaced + another, epoch=epoch, place=f"-{uuid4().hex[:16]}")
        for number, piece in enumerate(chain(rechunked(chunks, PACK_BYTES), [b""])):
            self._objects.put(self._log_path(new, number), framed(epoch, piece))
        if not self._write_head(new, etag):
            self._drop(new)
            raise stale(key)
        self.forget()
        self._drop(head)

    def compact(self, *, archive: bool = False) -> None:
        """Join small objects; with ``archive`` all of them, compressed."""
        head, etag = self._read_head()
        if head.sealed:
            return
        changed_ms = self.changed_ms(head, self._objects.list(f"{self.folder}/")) if archive else 0
        for group in groups(self.pieces(head), archive=archive):
            full = [one for one in group if one.size]
            if not full or (len(group) == 1 and group[0].packed):
                continue
            data = b"".join(self._bytes(one) or b"" for one in full)
            if len(data) != sum(one.size for one in full):
                raise Damaged(f"an object of {self.folder} went while it was being packed")
            old = [one.path for one in full]
            self._put_pack(head, group[0].first, group[-1].last, data, old, compress=archive)
        self.forget()
        if archive:
            self._write_head(msgspec.structs.replace(head, archived=True, changed_ms=changed_ms), etag)

    def changed_ms(self, head: Head, objects: Iterable[ListedObject]) -> int:
        """Return when the log was last changed by the server's clock, by ``objects`` in its folder; 0 for none."""
        if head.archived and head.changed_ms:
            return head.changed_ms
        folders = (self._log_folder(head), self._pack_folder(head))
        mine = [one for one in objects if one.path.startswith(folders)]
        data = [one for one in mine if one.size > HEAD_BYTES] or mine
        return max((one.modified for one in data), default=0)

    def unarchive(self) -> None:
        """Mark it as not archived; its packs are read as they are."""
        head, etag = self._read_head()
        if head.archived:
            self._write_head(msgspec.structs.replace(head, archived=False), etag)

    # -- inside ------------------------------------------------------------------------------
    def _put_pack(self, head: Head, first: int, last: int, data: bytes, old: list[str], *, compress: bool) -> None:
        """Store a pack; only then remove its parts. Fences stay: the pack's name has their numbers from then on."""
        name = f"{first:012d}-{last:012d}-{len(data)}-{'z' if compress else 'p'}"
        path = self._pack_folder(head) + name
        self._objects.put(path, packed(data) if compress else data)
        now = self.head()
        if now.mark != head.mark or now.sealed:
            # The key was removed, or its log was replaced: nothing of that may be left.
            self._objects.delete(path)
            raise Fenced("the log went while it was being packed")
        self._objects.delete(*[one for one in old if one != path])

    def _pack_recent(self, turn: _Turn, data: bytes) -> None:
        """Pack a block from memory that was written here completely: no log gets too many objects."""
        if turn.number % BLOCK == 0:
            self._recent = []
        self._recent.append(data)
        if sum(map(len, self._recent)) > PACK_BYTES:
            self._recent = []  # too much to keep; it is packed in the end
        recent, first = self._recent, turn.number - BLOCK + 1
        if turn.number % BLOCK != BLOCK - 1 or len(recent) != BLOCK:
            return
        self._recent = []
        old = [self._log_path(turn.head, number) for number in range(first, turn.number + 1)]
        with contextlib.suppress(HoldfastError):  # small objects only cost time
            self._put_pack(turn.head, first, turn.number, b"".join(recent), old, compress=False)

    def _bytes(self, piece: ObjectPiece) -> bytes | None:
        found = self._objects.get(piece.path)
        if found is None:
            return None
        if piece.packed:
            return unpacked(found.data, piece.size)
        data = found.data[piece.skip :]
        return data if len(data) == piece.size else None

    def _create(self, head: Head, number: int, epoch: int, data: bytes) -> bool:
        """Create the object of a number; return whether it is ours."""
        path = self._log_path(head, number)
        whole = framed(epoch, data)
        if not self._objects.create(path, whole):
            found = self._objects.get(path)
            if found is None or found.data != whole or not data:
                return False
        self._found.setdefault(head.mark, []).append(log_piece(number, len(data), path))
        self._seen[head.mark] = path
        return True

    def _begin(self, packet: Packet) -> _Turn | None:
        """Return where a writer of this epoch may continue; None if the epoch is over."""
        while True:
            head, etag = self._read_head()
            if head.sealed or head.epoch != packet.epoch:
                return None
            if head.archived:
                self._write_head(msgspec.structs.replace(head, archived=False), etag)
                continue
            self.forget()
            pieces = self.pieces(head)
            last = self._epoch_of(head)
            if last == packet.epoch:
                return _Turn(head, next_number(pieces), end_of(pieces), packet.epoch)
            if last is not None:
                return None

    def _is_stored(self, turn: _Turn, packet: Packet) -> bool:
        """Return whether an earlier try, whose answer was lost, has stored the packet."""
        if turn.size != packet.start + len(packet.data):
            return False
        data = b"".join(self.read(packet.start))
        if data == packet.data:
            self._turn = turn
        return data == packet.data

    def _epoch_of(self, head: Head) -> int | None:
        """Return the epoch in force; None if the last object was packed meanwhile: then look again."""
        known = self._found[head.mark]
        if not known:
            return 0
        last = self._objects.get(known[-1].path)
        if last is None:
            return None
        magic, text = last.data[: len(_MAGIC)], last.data[len(_MAGIC) : len(_MAGIC) + 16]
        if magic != _MAGIC or not _HEX.fullmatch(text):
            raise Damaged("an object of a log does not begin as one")
        return int(text, 16)

    def _drop(self, head: Head) -> None:
        """Remove the data of a generation that does not count; its fences stay."""
        data = [one.path for one in self._objects.list(self._log_folder(head)) if one.size > HEAD_BYTES]
        self._objects.delete(*data, *(one.path for one in self._objects.list(self._pack_folder(head))))

    def _read_head(self) -> tuple[Head, str]:
        """Return the current head and its etag; an empty one, and no etag, if there is no object."""
        head, etag, _ = self._objects.get_value(f"{self.folder}/head", Head, f"the head of {self.folder}")
        return head or Head(), etag

    def _write_head(self, head: Head, etag: str) -> bool:
        """Replace the head that was read with this etag; return whether it was still that."""
        return self._objects.put_value(f"{self.folder}/head", head, etag)

    def _log_folder(self, head: Head) -> str:
        return f"{self.folder}/log/{head.mark}/"

    def _pack_folder(self, head: Head) -> str:
        return f"{self.folder}/pack/{head.mark}/"

    def _log_path(self, head: Head, number: int) -> str:
        return f"{self._log_folder(head)}{number:012d}"


# The objects that make up a log in a bucket: their contents, their names, and their order.
# A log's objects are numbered without a gap. Small ones are joined into packs: always the same numbers, in blocks, so
# that concurrent packers, late or early, make the same packs or wider ones, and no pack ever partly overlaps another.
# Nothing here accesses the bucket.
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
    skip: int = 0  # bytes of the object before those of the log: none in a pack
    packed: bool = False
    start: int = 0  # known once all pieces are lined up


def next_number(pieces: list[ObjectPiece]) -> int:
    """Return the number of the object after these."""
    return pieces[-1].last + 1 if pieces else 0


def end_of(pieces: list[ObjectPiece]) -> int:
    """Return how many bytes a log of these pieces has."""
    return pieces[-1].start + pieces[-1].size if pieces else 0


def framed(epoch: int, data: bytes) -> bytes:
    """Return the bytes of an object: the epoch that wrote it, and its data."""
    return _MAGIC + b"%016x" % epoch + b"\n\n\n\n" + data


def log_piece(number: int, size: int, path: str) -> ObjectPiece:
    """Return the piece of an object, with that many bytes of the log."""
    return ObjectPiece(number, number, size, path, HEAD_BYTES)


def log_pieces(listed: Iterable[ListedObject]) -> list[ObjectPiece]:
    """Return the listed objects of a log; other names are skipped."""
    found = []
    for one in listed:
        name = one.path.rpartition("/")[2]
        if _NUMBER.fullmatch(name):
            found.append(log_piece(int(name), max(0, one.size - HEAD_BYTES), one.path))
    return found


def pack_pieces(listed: Iterable[ListedObject]) -> list[ObjectPiece]:
    """Return the listed packs of a log; other names are skipped."""
    found = []
    for one in listed:
        name = _PACK.fullmatch(one.path.rpartition("/")[2])
        if name is not None:
            first, last, size = (int(name[number]) for number in (1, 2, 3))
            found.append(ObjectPiece(first, last, size, one.path, packed=name[4] == "z"))
    return found


def lined_up(objects: list[ObjectPiece]) -> list[ObjectPiece]:
    """Return the objects in their order, without those whose numbers a pack covers."""
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

    ordered = sorted([*kept, *(one for one in loose if not is_covered(one.first))], key=lambda one: one.first)
    pieces: list[ObjectPiece] = []
    start = 0
    for one in ordered:
        pieces.append(one._replace(start=start))
        start += one.size
    return pieces


def groups(pieces: list[ObjectPiece], *, archive: bool) -> Iterator[list[ObjectPiece]]:
    """Return the neighbours that become a pack: whole blocks, and in an archive several of them together.

    In an archive the last, incomplete block becomes one of its own, and is joined with what came
    after it the next time.
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
