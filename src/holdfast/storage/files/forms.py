"""Changing the form of a log: replaced, archived, unarchived, made self-contained.

For the holder of the lease. Each form is a new file, written completely and synced before one rename puts it
into place; the old files are removed after that.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from holdfast.errors import Conflict, Damaged, HoldfastError, Locked, NotFound, StoreError, TooLarge
from holdfast.storage._pieces import first_bytes
from holdfast.storage.base import BLOBS, is_document_name
from holdfast.storage.disk import Disk
from holdfast.storage.files.lease import FileLease, forget_settled
from holdfast.storage.files.parts import (
    ARCHIVE_NAME,
    BASE_NAME,
    LOG_NAME,
    OWN_NAME,
    PARTS_MAX,
    Base,
    Look,
    OpenLog,
    base_part_name,
    look,
    open_archive,
    open_parts,
    read_file_part,
)
from holdfast.storage.files.tree import Tree, held, reading, remove_tree, write_all

# A file system without hard links, one that allows no more of them, or another one.
CANNOT_LINK = (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)

_NEW_LOG_NAME = "events.jsonl.new"
_NEW_ARCHIVE_NAME = "events.jsonl.zst.new"


class FileForms:
    """The forms that one key's log can have. Lets OSError through."""

    def __init__(self, tree: Tree, parts: tuple[str, ...]) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._parts = parts

    def replace(self, chunks: Iterable[bytes]) -> None:
        """Replace the old log, which gets a name in quarantine first."""
        with self._tree.opened(self._parts, create=True) as directory:
            assert directory is not None
            with self._held(directory):
                self._make_plain(directory)
                if self._has_leftovers(directory):
                    self._disk.sync_directory(directory)
                    self._sweep(directory, LOG_NAME)
                with self._new_file(directory, _NEW_LOG_NAME, chunks):
                    self._quarantine(LOG_NAME, "generation", directory)
                    self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)
            self._tree.sync(self._parts)

    def overwrite(self, directory: int, chunks: Iterable[bytes], found: Look | None) -> None:
        """Replace the log that was found, whatever its form; nothing of it stays."""
        with self._new_file(directory, _NEW_LOG_NAME, chunks):
            self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)
        # The path to a branch was durable before it became visible.
        if found is not None and found.is_branch:
            self._disk.sync_directory(directory)
        else:
            self._tree.sync(self._parts)
        if self._has_leftovers(directory):
            self._sweep(directory, LOG_NAME)
            self._disk.sync_directory(directory)

    @contextmanager
    def _held(self, directory: int) -> Iterator[None]:
        """Keep the files that identify this generation by inode open: else the inode could be reused."""
        with contextlib.ExitStack() as held:
            for name in (LOG_NAME, ARCHIVE_NAME, BASE_NAME):
                if self._disk.node_at(name, directory) is not None:
                    held.enter_context(reading(self._disk, name, directory))
            yield

    def make_plain(self, size: int | None = None) -> None:
        """Make the log one file of its own, or only its first bytes."""
        with self._tree.opened(self._parts) as directory:
            if directory is not None:
                self._make_plain(directory, size)

    def ready_to_write(self, directory: int) -> Look | None:
        """Make the log ready for appending, with nothing left over. Raises Damaged for an incomplete archive."""
        found = look(self._disk, directory)
        if found is None or found.is_branch:
            return found
        if found.is_archived:
            self._make_plain(directory, strict=True)
            return look(self._disk, directory)
        if self._has_leftovers(directory):
            with contextlib.suppress(OSError):
                # Their replacement must be durable before they are removed.
                self._disk.sync_directory(directory)
                self._sweep(directory, LOG_NAME)
        return found

    def archive(self) -> None:
        """Compress the log and read it back; then remove the files it was in."""
        with self._tree.opened(self._parts) as directory:
            opened = None if directory is None else open_parts(self._disk, directory)
            if directory is None or opened is None:
                return
            with opened:
                if opened.found.is_archived:
                    return
                from holdfast.storage.files.archive import ARCHIVE_BYTES_MAX, checksum, pack

                size = opened.found.size
                if size > ARCHIVE_BYTES_MAX:
                    remedy = f"It stays as it is: only logs up to {ARCHIVE_BYTES_MAX:,} bytes are archived."
                    raise TooLarge(f"a log of {size:,} bytes is too long to be archived", remedy=remedy)
                packed = pack(opened.read(), size, opened.found.node.modified)
                with self._new_file(directory, _NEW_ARCHIVE_NAME, packed):
                    with reading(self._disk, _NEW_ARCHIVE_NAME, directory) as new:
                        found = checksum(open_archive(self._disk, new).read())
                    if found != checksum(opened.read()):
                        raise StoreError("the archive did not read back as it was written")
                    self._disk.rename(_NEW_ARCHIVE_NAME, directory, ARCHIVE_NAME, directory)
            # The new file must be durable before the old ones are removed.
            self._tree.sync(self._parts)
            self._sweep(directory, ARCHIVE_NAME)
            self._disk.sync_directory(directory)

    def _make_plain(self, directory: int, size: int | None = None, *, strict: bool = False) -> None:
        opened = open_parts(self._disk, directory)
        if opened is None:
            return
        with opened:
            if opened.found.is_plain and size is None:
                return
            self._write_plain(directory, opened, size, strict=strict)
        self._tree.sync(self._parts)
        self._sweep(directory, LOG_NAME)
        self._disk.sync_directory(directory)

    def _write_plain(self, directory: int, opened: OpenLog, size: int | None, *, strict: bool) -> None:
        archive = opened.archive()
        chunks = opened.read() if archive is None else archive.read()
        if size is not None:
            chunks = first_bytes(chunks, size)
        with self._new_file(directory, _NEW_LOG_NAME, chunks):
            if archive is not None and archive.damaged:
                if strict:
                    raise Damaged(
                        f"the archive of {'/'.join(self._parts)} is damaged",
                        remedy="Keep what is whole with `holdfast archive --restore`, then go on.",
                    )
                self._quarantine(ARCHIVE_NAME, "archive", directory)
            if size is not None or (archive is not None and archive.damaged):
                # The shorter file may get the inode of the longer one that a note measured.
                forget_settled(self._disk, directory)
            self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)

    @contextmanager
    def _new_file(self, directory: int, name: str, chunks: Iterable[bytes]) -> Iterator[None]:
        """Write a new file, synced, for the block to rename. If that fails its space is freed."""
        try:
            write_file(self._disk, name, directory, chunks)
            yield
        except BaseException:
            # If this fails too, the next writer does it.
            with contextlib.suppress(OSError):
                self._disk.unlink(name, directory)
            raise

    def _quarantine(self, name: str, what: str, directory: int) -> None:
        """Give a file a second name in quarantine, or copy it; durable on return."""
        old = self._disk.node_at(name, directory)
        if old is None:
            return
        folder = (*self._parts, "quarantine")
        with self._tree.opened(folder, create=True) as quarantine:
            assert quarantine is not None
            second = f"{what}-{old.inode}-{old.size}"
            made = self._disk.node_at(second, quarantine)
            if made is None:
                try:
                    self._disk.link(name, directory, second, quarantine)
                except OSError as error:
                    if error.errno not in CANNOT_LINK:
                        raise
                    self._copy(name, directory, second, quarantine)
            elif made.inode != old.inode:  # a copy, possibly incomplete
                self._copy(name, directory, second, quarantine)
        # The whole path, and before the rename: the old bytes must have their second name first.
        self._tree.sync(folder)

    def _copy(self, name: str, directory: int, second: str, other: int) -> None:
        with reading(self._disk, name, directory) as descriptor:
            write_file(self._disk, second, other, read_file_part(self._disk, descriptor, 0, None))

    def _has_leftovers(self, directory: int) -> bool:
        return any(self._disk.node_at(name, directory) is not None for name in (ARCHIVE_NAME, BASE_NAME))

    def _sweep(self, directory: int, kept: str) -> None:
        """Remove the files of the log's other forms, the one that reveals them last."""
        there = {*self._disk.scan(directory)} - {kept}
        bases = [base_part_name(number) for number in range(1, PARTS_MAX + 1)]
        for name in (LOG_NAME, *bases, OWN_NAME, ARCHIVE_NAME, BASE_NAME):
            if name in there:
                self._disk.unlink(name, directory)


def write_file(disk: Disk, name: str, directory: int, chunks: Iterable[bytes]) -> None:
    """Write a new file with these bytes, synced, replacing what a crash left under the name."""
    if disk.node_at(name, directory) is not None:
        disk.unlink(name, directory)
    with held(disk, disk.open_new(name, directory)) as descriptor:
        for chunk in chunks:
            write_all(disk, descriptor, chunk)
        disk.sync(descriptor)


# A new key whose log begins with another's: hard links to its files, and how much of them belongs to it.
# The new key is assembled out of sight, in ``.branches`` beside the keys, and made visible by one rename. What a crash
# left there is removed with the next branch.
_HIDDEN = ".branches"
_BLOBS = BLOBS.rstrip("/")
_TRIES_MAX = 100


@contextmanager
def making(tree: Tree, target: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return an empty place out of sight, for what becomes ``target``; the block has its lock.

    What stays there is removed.
    """
    above = (*target[:-1], _HIDDEN)
    # Remove what crashes left, but nothing that is still in use.
    with tree.opened(above) as directory:
        names = [] if directory is None else tree.disk.scan(directory)
    for name in names:
        with contextlib.suppress(Locked), FileLease(tree, (*above, name)).held("store", 0):
            _remove(tree, (*above, name))
    hidden = (*above, target[-1])
    with FileLease(tree, hidden).held("store", 0):
        try:
            yield hidden
        except BaseException:
            with contextlib.suppress(OSError, HoldfastError):
                _remove(tree, hidden)
            raise


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
    """A directory that gets files of another."""

    def __init__(self, disk: Disk, above: int, below: int) -> None:
        self._disk = disk
        self._above = above
        self._below = below

    def take_log(self, size: int) -> None:
        """Take the first bytes of the log; again if it changes its form meanwhile."""
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
        """Take the documents that lines may refer to."""
        try:
            folder = self._disk.open_directory(_BLOBS, self._above)
        except FileNotFoundError:
            return
        with held(self._disk, folder) as theirs:
            names = [name for name in self._disk.scan(theirs) if is_document_name(BLOBS + name)]
            if not names:
                return
            self._disk.make_directory(_BLOBS, self._below)
            with held(self._disk, self._disk.open_directory(_BLOBS, self._below)) as ours:
                heir = _Heir(self._disk, theirs, ours)
                for name in names:
                    with contextlib.suppress(FileNotFoundError), reading(self._disk, name, theirs) as descriptor:
                        self._disk.sync(descriptor)
                        heir.take(name, name, descriptor, self._disk.node(descriptor).size)
                self._disk.sync_directory(ours)

    def _take_parts(self, opened: OpenLog, size: int) -> bool:
        """Take the parts under their new names; return False if another file has their name now."""
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
        write_file(self._disk, BASE_NAME, self._below, [msgspec.json.encode(Base(sizes))])
        return True

    def take(self, name: str, new_name: str, descriptor: int, count: int) -> bool:
        """Link or copy an open file; return False if its name belongs to another file now."""
        try:
            self._disk.link(name, self._above, new_name, self._below)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            write_file(self._disk, new_name, self._below, read_file_part(self._disk, descriptor, 0, count))
            return True
        made = self._disk.node_at(new_name, self._below)
        if made is not None and made.inode == self._disk.node(descriptor).inode:
            return True
        self._disk.unlink(new_name, self._below)
        return False


def _sizes(opened: OpenLog, size: int) -> list[int]:
    """Return how much of each part belongs to the first ``size`` bytes."""
    sizes = []
    for part, _ in opened.files:
        if size > 0:
            sizes.append(min(part.size, size))
            size -= part.size
    return sizes


def _remove(tree: Tree, parts: tuple[str, ...]) -> None:
    with tree.opened(parts[:-1]) as directory:
        if directory is not None:
            try:
                remove_tree(tree.disk, parts[-1], directory)
            except OSError as error:
                # Another process took the place, empty, as soon as the lock was released.
                if error.errno != errno.ENOTEMPTY:
                    raise
