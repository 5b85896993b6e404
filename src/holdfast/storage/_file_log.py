"""A log as one file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from zlib import crc32

from holdfast.errors import Forbidden, HoldfastError, StoreError, StoreFull, SyncFailed
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._tree import Tree, let_go, translated, translation
from holdfast.storage.base import CHUNK_BYTES, Log
from holdfast.storage.disk import Node

__all__ = ["LOG_NAME", "FileLog"]

LOG_NAME = "events.jsonl"
_NEW_LOG_NAME = "events.jsonl.new"
# For each open log: with many of them it adds up, and appends cannot reuse memory that is kept.
_KEPT_BYTES_MAX = 1 << 20


class FileLog(Log):
    """``events.jsonl`` of one key: appended with one ``write``, synced with one ``fdatasync``."""

    def __init__(self, tree: Tree, parts: tuple[str, ...], documents: FileDocuments) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._write = tree.disk.write
        self._parts = parts
        self._documents = documents
        self._descriptor: int | None = None
        self._size = 0
        self._synced = 0
        self._entries_synced = False
        # After a failed sync the kernel may have dropped what the file should hold, so what was
        # appended since the last sync is kept here, up to a bound.
        self._kept: list[bytes] = []
        self._dead: HoldfastError | None = None
        self._open_lock = threading.Lock()
        self._sync_lock = threading.Lock()

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """As the contract says; the descriptor's lock is what keeps other writers out."""
        descriptor = self._descriptor
        if descriptor is None or self._dead is not None:
            descriptor = self._open_to_write()
        write = self._write
        end = self._size + len(data)
        try:
            written = write(descriptor, data)
            if written != len(data):
                self._write_rest(descriptor, memoryview(data)[written:])
            self._size = end
            if end - self._synced <= _KEPT_BYTES_MAX:
                self._kept.append(data)
        except BaseException as error:
            self._take_back(descriptor, data, end - len(data), error)
            raise

    def sync(self) -> None:
        """One ``fdatasync`` for all who wait; the directories as well the first time."""
        target = self._size
        with self._sync_lock:
            if self._dead is not None:
                raise self._dead.with_traceback(None)
            if self._entries_synced and self._synced >= target:
                return
            kept, mark = len(self._kept), self._size
            try:
                self._entries_synced = self._sync_all()
            except OSError as error:
                self._dead = SyncFailed(errno=error.errno)
                raise self._dead from error
            self._synced = max(self._synced, mark)
            del self._kept[:kept]

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Chunks of what is in the file while it is being read."""
        with translation(f"reading {self._name()}"):
            descriptor = self._open_to_read()
            if descriptor is None:
                return
            try:
                while chunk := self._disk.read_at(descriptor, CHUNK_BYTES, start):
                    yield chunk
                    start += len(chunk)
            finally:
                let_go(self._disk, descriptor)

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes of the file."""
        size = self.size()
        start = max(0, size - max_bytes)
        return start, b"".join(self.read(start))

    def size(self) -> int:
        """The size of the file, whoever wrote it."""
        node = self._node()
        return 0 if node is None else node.size

    def cut(self, offset: int, epoch: int) -> None:
        """Quarantine first, then truncate: a crash between the two does it again."""
        torn = b"".join(self.read(offset))
        if not torn:
            return
        # Named by place and content, so that doing it twice leaves one copy.
        self._documents.put(f"quarantine/torn-{offset}-{crc32(torn):08x}", torn)
        descriptor = self._open_to_write()
        try:
            self._disk.truncate(descriptor, offset)
            self._disk.sync(descriptor)
        except OSError as error:
            # What the file holds now is unknown; another opening will see.
            self._dead = SyncFailed(f"cutting {self._name()} failed", errno=error.errno)
            raise self._dead from error
        self._size = self._synced = offset
        self._kept.clear()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write the new file whole, give the old one a name in quarantine, then rename."""
        self.close()
        with (
            translation(f"replacing {self._name()}"),
            self._tree.opened(self._parts, create=True) as directory,
        ):
            assert directory is not None
            try:
                self._write_new(directory, chunks)
                self._quarantine_old(directory)
                self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)
            except BaseException:
                self._discard_new(directory)
                raise
            self._tree.sync(self._parts)

    def generation(self) -> str:
        """The file's inode: replacing gives another one."""
        node = self._node()
        return "" if node is None else str(node.inode)

    def unsaved(self) -> bytes:
        """What was appended since the last sync, from memory as far as it was kept."""
        if self._size - self._synced <= _KEPT_BYTES_MAX:
            return b"".join(self._kept)
        return b"".join(self.read(self._synced))

    def close(self) -> None:
        """Close the file."""
        with self._sync_lock, self._open_lock:
            descriptor, self._descriptor = self._descriptor, None
            self._entries_synced = False
            if descriptor is not None:
                let_go(self._disk, descriptor)

    def _node(self) -> Node | None:
        with (
            translation(f"looking at {self._name()}"),
            self._tree.opened(self._parts) as directory,
        ):
            node = None if directory is None else self._disk.node_at(LOG_NAME, directory)
        if node is not None and (node.is_symlink or node.is_directory):
            raise Forbidden(f"{self._name()} is not a file of the store")
        return node

    def _name(self) -> str:
        return "/".join((*self._parts, LOG_NAME))

    def _sync_all(self) -> bool:
        """The documents that lines may name, then the lines, then the way to them.

        Whether there was a file. Lets OSError through.
        """
        self._documents.sync_pending()
        descriptor = self._descriptor
        if descriptor is not None:
            self._disk.sync(descriptor)
        elif not self._sync_unopened():
            return False
        if not self._entries_synced:
            self._tree.sync(self._parts)
        return True

    def _sync_unopened(self) -> bool:
        """Nothing was appended here yet, but an earlier process may have died before its sync."""
        descriptor = self._open_to_read()
        if descriptor is None:
            return False
        try:
            self._disk.sync(descriptor)
        finally:
            let_go(self._disk, descriptor)
        return True

    def _open_to_write(self) -> int:
        if self._dead is not None:
            raise self._dead.with_traceback(None)
        with self._open_lock:
            if self._descriptor is None:
                with (
                    translation(f"opening {self._name()}"),
                    self._tree.opened(self._parts, create=True) as directory,
                ):
                    assert directory is not None
                    self._descriptor = self._opened(directory)
            return self._descriptor

    def _opened(self, directory: int) -> int:
        """The file, and its size, which is the only right place to go back to."""
        descriptor = self._disk.open_log(LOG_NAME, directory, create=True)
        try:
            self._size = self._synced = self._disk.node(descriptor).size
        except BaseException:
            let_go(self._disk, descriptor)
            raise
        self._entries_synced = False
        self._kept.clear()
        return descriptor

    def _open_to_read(self) -> int | None:
        with self._tree.opened(self._parts) as directory:
            if directory is None:
                return None
            try:
                return self._disk.open_read(LOG_NAME, directory)
            except FileNotFoundError:
                return None

    def _write_rest(self, descriptor: int, rest: memoryview) -> None:
        """A write that took less than all of it: go on until the disk takes all or says why not."""
        while rest:
            written = self._write(descriptor, rest)
            if not written:
                raise OSError(0, "the disk takes no more bytes")
            rest = rest[written:]

    def _take_back(self, descriptor: int, data: bytes, start: int, error: BaseException) -> None:
        """Undo a failed append, so that the log ends with its last whole record.

        Raises the typed error for what the disk said; returns if it was something else, such as a
        key press that interrupts the program. If it cannot be undone the log is dead.
        """
        self._dead = StoreError(
            f"an append to {self._name()} failed half-way and could not be taken back",
            remedy="Open the session again; the torn bytes are then set aside.",
            errno=error.errno if isinstance(error, OSError) else None,
        )
        if not self._cut_back(descriptor, start, len(data)):
            raise self._dead from error
        self._size = start
        if self._kept and self._kept[-1] is data:
            self._kept.pop()
        self._dead = None
        if isinstance(error, OSError):
            failure = translated(error, f"appending to {self._name()}")
            if isinstance(failure, StoreFull):
                failure.fields["needed_bytes"] = len(data)
            raise failure from error

    def _cut_back(self, descriptor: int, start: int, size_max: int) -> bool:
        """Remove what a failed append left; False if it cannot be, or is not only ours."""
        try:
            size = self._disk.node(descriptor).size
            ours = start <= size <= start + size_max
            if ours and size > start:
                self._disk.truncate(descriptor, start)
        except OSError:
            return False
        return ours

    def _write_new(self, directory: int, chunks: Iterable[bytes]) -> None:
        if self._disk.node_at(_NEW_LOG_NAME, directory) is not None:
            self._disk.unlink(_NEW_LOG_NAME, directory)
        descriptor = self._disk.open_new(_NEW_LOG_NAME, directory)
        try:
            for chunk in chunks:
                self._write_rest(descriptor, memoryview(chunk))
            self._disk.sync(descriptor)
        finally:
            let_go(self._disk, descriptor)

    def _quarantine_old(self, directory: int) -> None:
        old = self._disk.node_at(LOG_NAME, directory)
        if old is None:
            return
        folder = (*self._parts, "quarantine")
        with self._tree.opened(folder, create=True) as quarantine:
            assert quarantine is not None
            name = f"generation-{old.inode}-{old.size}"
            if self._disk.node_at(name, quarantine) is None:
                self._disk.link(LOG_NAME, directory, name, quarantine)
        # The whole way, and before the rename: the old bytes must have their second name first.
        self._tree.sync(folder)

    def _discard_new(self, directory: int) -> None:
        """Give the space back; if that fails too, the next replace does it."""
        with contextlib.suppress(OSError):
            self._disk.unlink(_NEW_LOG_NAME, directory)
