"""A log put into another form: replaced, archived, taken out of the archive, made self-contained.

For who holds the lease. Each is a new file, written whole and synced before one rename puts it into
place; what it takes the place of goes after that.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from holdfast.errors import Damaged, StoreError, TooLarge
from holdfast.storage._branch import first_bytes
from holdfast.storage._file_parts import (
    ARCHIVE_NAME,
    BASE_NAME,
    LOG_NAME,
    OWN_NAME,
    PARTS_MAX,
    Look,
    OpenLog,
    base_part_name,
    look,
    open_archive,
    open_parts,
    read_file_part,
)
from holdfast.storage._tree import Tree, let_go
from holdfast.storage.disk import Disk

__all__ = ["CANNOT_LINK", "FileForms", "write_all", "write_file"]

# A file system without second names, one that allows no more of them, or another one.
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
        """Another log in the place of the old one, which gets a name in quarantine first."""
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

    @contextmanager
    def _held(self, directory: int) -> Iterator[None]:
        """Keep open what tells this generation of the log from others by its inode.

        A file that goes could otherwise give its inode to the very file that takes its place.
        """
        with contextlib.ExitStack() as held:
            for name in (LOG_NAME, ARCHIVE_NAME, BASE_NAME):
                if self._disk.node_at(name, directory) is not None:
                    descriptor = self._disk.open_read(name, directory)
                    held.callback(let_go, self._disk, descriptor)
            yield

    def make_plain(self, size: int | None = None) -> None:
        """The log as one file of its own, or only its first bytes."""
        with self._tree.opened(self._parts) as directory:
            if directory is not None:
                self._make_plain(directory, size)

    def ready_to_write(self, directory: int) -> Look | None:
        """What the log is once it can be appended to: not archived, and nothing left over.

        Raises Damaged for an archive that is not whole: nobody goes on from there unasked.
        """
        found = look(self._disk, directory)
        if found is None or found.is_branch:
            return found
        if found.is_archived:
            self._make_plain(directory, strict=True)
            return look(self._disk, directory)
        if self._has_leftovers(directory):
            with contextlib.suppress(OSError):
                # What took their place must be safe before they go.
                self._disk.sync_directory(directory)
                self._sweep(directory, LOG_NAME)
        return found

    def archive(self) -> None:
        """The log compressed and read back; then the files go in which it was."""
        with self._tree.opened(self._parts) as directory:
            if directory is None:
                return
            opened = open_parts(self._disk, directory)
            if opened is None:
                return
            with opened:
                if opened.found.is_archived:
                    return
                self._write_archive(directory, opened)
            # Before the old files go, the new one must be safe.
            self._tree.sync(self._parts)
            self._sweep(directory, ARCHIVE_NAME)
            self._disk.sync_directory(directory)

    def _write_archive(self, directory: int, opened: OpenLog) -> None:
        from holdfast.storage._archive import ARCHIVE_BYTES_MAX, checksum, pack

        size = opened.found.size
        if size > ARCHIVE_BYTES_MAX:
            raise TooLarge(f"a log of {size:,} bytes is too long to be archived")
        packed = pack(opened.read(), size, opened.found.node.modified)
        with self._new_file(directory, _NEW_ARCHIVE_NAME, packed):
            descriptor = self._disk.open_read(_NEW_ARCHIVE_NAME, directory)
            try:
                found = checksum(open_archive(self._disk, descriptor).read())
            finally:
                let_go(self._disk, descriptor)
            if found != checksum(opened.read()):
                raise StoreError("the archive did not read back as it was written")
            self._disk.rename(_NEW_ARCHIVE_NAME, directory, ARCHIVE_NAME, directory)

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

    def _write_plain(
        self, directory: int, opened: OpenLog, size: int | None, *, strict: bool
    ) -> None:
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
            self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)

    @contextmanager
    def _new_file(self, directory: int, name: str, chunks: Iterable[bytes]) -> Iterator[None]:
        """A new file, synced, to be renamed in the block. If that fails its space is given back."""
        try:
            write_file(self._disk, name, directory, chunks)
            yield
        except BaseException:
            # If this fails too, the next one to write it does it.
            with contextlib.suppress(OSError):
                self._disk.unlink(name, directory)
            raise

    def _quarantine(self, name: str, what: str, directory: int) -> None:
        """A second name for a file, or a copy, safe when this returns."""
        old = self._disk.node_at(name, directory)
        if old is None:
            return
        folder = (*self._parts, "quarantine")
        with self._tree.opened(folder, create=True) as quarantine:
            assert quarantine is not None
            second = f"{what}-{old.inode}-{old.size}"
            made = self._disk.node_at(second, quarantine)
            if made is None:
                self._link_or_copy(name, directory, second, quarantine)
            elif made.inode != old.inode:  # a copy, and perhaps not all of it
                self._copy(name, directory, second, quarantine)
        # The whole way, and before the rename: the old bytes must have their second name first.
        self._tree.sync(folder)

    def _link_or_copy(self, name: str, directory: int, second: str, other: int) -> None:
        try:
            self._disk.link(name, directory, second, other)
        except OSError as error:
            if error.errno not in CANNOT_LINK:
                raise
            self._copy(name, directory, second, other)

    def _copy(self, name: str, directory: int, second: str, other: int) -> None:
        descriptor = self._disk.open_read(name, directory)
        try:
            write_file(self._disk, second, other, read_file_part(self._disk, descriptor, 0, None))
        finally:
            let_go(self._disk, descriptor)

    def _has_leftovers(self, directory: int) -> bool:
        names = (ARCHIVE_NAME, BASE_NAME)
        return any(self._disk.node_at(name, directory) is not None for name in names)

    def _sweep(self, directory: int, kept: str) -> None:
        """Remove the files of the log's other forms, the one by which they are noticed last."""
        bases = [base_part_name(number) for number in range(1, PARTS_MAX + 1)]
        for name in (LOG_NAME, *bases, OWN_NAME, ARCHIVE_NAME, BASE_NAME):
            if name != kept and self._disk.node_at(name, directory) is not None:
                self._disk.unlink(name, directory)


def write_file(disk: Disk, name: str, directory: int, chunks: Iterable[bytes]) -> None:
    """A new file with these bytes, synced; in the place of what a crash left under the name."""
    if disk.node_at(name, directory) is not None:
        disk.unlink(name, directory)
    descriptor = disk.open_new(name, directory)
    try:
        for chunk in chunks:
            write_all(disk, descriptor, memoryview(chunk))
        disk.sync(descriptor)
    finally:
        let_go(disk, descriptor)


def write_all(disk: Disk, descriptor: int, rest: memoryview) -> None:
    """Write until the disk has taken all of it or says why not."""
    while rest:
        written = disk.write(descriptor, rest)
        if not written:
            raise OSError(0, "the disk takes no more bytes")
        rest = rest[written:]
