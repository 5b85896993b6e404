"""A new key whose log begins with another's: second names for its files, and how much of them.

The new key is put together out of sight, in ``.branches`` beside the keys, and comes into sight by
one rename. What a crash left there goes with the next branch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from holdfast.errors import Conflict, HoldfastError, Locked, NotFound, StoreError
from holdfast.storage._branch import first_bytes
from holdfast.storage._file_forms import CANNOT_LINK, write_file
from holdfast.storage._file_lease import FileLease
from holdfast.storage._file_parts import (
    BASE_NAME,
    LOG_NAME,
    PARTS_MAX,
    Base,
    OpenLog,
    base_part_name,
    open_parts,
    read_file_part,
)
from holdfast.storage._tree import Tree, let_go, remove_tree
from holdfast.storage.base import BLOBS, is_document_name
from holdfast.storage.disk import Disk

__all__ = ["inherit", "making"]

_HIDDEN = ".branches"
_BLOBS = BLOBS.rstrip("/")
_TRIES_MAX = 100


@contextmanager
def making(tree: Tree, target: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A place out of sight, empty and locked, for what is to become ``target``.

    Whoever renames it has the new key's lock until the block ends. What is still there then goes.
    """
    above = (*target[:-1], _HIDDEN)
    _clear(tree, above)
    hidden = (*above, target[-1])
    lease = FileLease(tree, hidden)
    lease.acquire("store", 0)
    try:
        yield hidden
    except BaseException:
        with contextlib.suppress(OSError, HoldfastError):
            _remove(tree, hidden)
        raise
    finally:
        lease.release()


def inherit(tree: Tree, source: tuple[str, ...], target: tuple[str, ...], size: int) -> None:
    """Give a directory the first bytes of a log, and the blobs beside it. Synced on return."""
    with tree.opened(source) as above, tree.opened(target) as below:
        if above is None:
            raise NotFound(f"there is no log at {'/'.join(source)}")
        assert below is not None
        heir = _Heir(tree.disk, above, below)
        heir.take_log(size)
        heir.take_blobs()
        tree.disk.sync_directory(below)


class _Heir:
    """One directory that gets files of another."""

    def __init__(self, disk: Disk, above: int, below: int) -> None:
        self._disk = disk
        self._above = above
        self._below = below

    def take_log(self, size: int) -> None:
        """The first bytes of the log, again if it takes another form meanwhile."""
        for _ in range(_TRIES_MAX):
            opened = open_parts(self._disk, self._above)
            if opened is None:
                raise NotFound("the log is gone")
            with opened:
                if size > opened.size():
                    raise Conflict(f"the log has fewer than {size:,} bytes")
                if self._take_parts(opened, size):
                    return
        raise StoreError("the log changes its form faster than it can be branched")

    def take_blobs(self) -> None:
        """The documents that lines may name."""
        with self._folder(self._above) as theirs:
            if theirs is None:
                return
            names = [name for name in self._disk.scan(theirs) if is_document_name(BLOBS + name)]
            if not names:
                return
            self._disk.make_directory(_BLOBS, self._below)
            with self._folder(self._below) as ours:
                assert ours is not None
                for name in names:
                    self._take_blob(name, theirs, ours)
                self._disk.sync_directory(ours)

    def _take_parts(self, opened: OpenLog, size: int) -> bool:
        """The parts under their new names; False if what has their names is another file now."""
        sizes = _sizes(opened, size)
        if opened.found.is_archived or len(sizes) > PARTS_MAX:
            write_file(self._disk, LOG_NAME, self._below, first_bytes(opened.read(), size))
            return True
        opened.sync()
        for number, count in enumerate(sizes, 1):
            part, descriptor = opened.files[number - 1]
            if not self.take(part.name, base_part_name(number), descriptor, count):
                for made in range(1, number):
                    self._disk.unlink(base_part_name(made), self._below)
                return False
        base = msgspec.json.encode(Base(sizes))
        write_file(self._disk, BASE_NAME, self._below, [base])
        return True

    def take(self, name: str, new_name: str, descriptor: int, count: int) -> bool:
        """A second name for an open file, or a copy; False if the first name is another's now."""
        try:
            self._disk.link(name, self._above, new_name, self._below)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            chunks = read_file_part(self._disk, descriptor, 0, count)
            write_file(self._disk, new_name, self._below, chunks)
            return True
        made = self._disk.node_at(new_name, self._below)
        if made is not None and made.inode == self._disk.node(descriptor).inode:
            return True
        self._disk.unlink(new_name, self._below)
        return False

    @contextmanager
    def _folder(self, directory: int) -> Iterator[int | None]:
        try:
            folder = self._disk.open_directory(_BLOBS, directory)
        except FileNotFoundError:
            yield None
            return
        try:
            yield folder
        finally:
            let_go(self._disk, folder)

    def _take_blob(self, name: str, theirs: int, ours: int) -> None:
        try:
            descriptor = self._disk.open_read(name, theirs)
        except FileNotFoundError:
            return
        try:
            self._disk.sync(descriptor)
            size = self._disk.node(descriptor).size
            _Heir(self._disk, theirs, ours).take(name, name, descriptor, size)
        finally:
            let_go(self._disk, descriptor)


def _sizes(opened: OpenLog, size: int) -> list[int]:
    """How much of each part belongs to the first ``size`` bytes."""
    sizes = []
    for part, _ in opened.files:
        if size > 0:
            sizes.append(min(part.size, size))
            size -= part.size
    return sizes


def _clear(tree: Tree, above: tuple[str, ...]) -> None:
    """Remove what crashes left, but nothing that someone is at work on."""
    with tree.opened(above) as directory:
        names = [] if directory is None else tree.disk.scan(directory)
    for name in names:
        lease = FileLease(tree, (*above, name))
        try:
            lease.acquire("store", 0)
            _remove(tree, (*above, name))
        except Locked:
            continue
        finally:
            lease.release()


def _remove(tree: Tree, parts: tuple[str, ...]) -> None:
    with tree.opened(parts[:-1]) as directory:
        if directory is not None:
            remove_tree(tree.disk, parts[-1], directory)
