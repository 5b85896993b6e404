"""A log as one file."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from zlib import crc32

from holdfast.errors import HoldfastError, StoreError, StoreFull, SyncFailed
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._tree import Tree, translated, translation
from holdfast.storage.base import CHUNK_BYTES, Log

__all__ = ["LOG_NAME", "FileLog"]

LOG_NAME = "events.jsonl"
_NEW_LOG_NAME = "events.jsonl.new"


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
        self._dead: HoldfastError | None = None
        self._sync_lock = threading.Lock()

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """As the contract says; the descriptor's lock is what keeps other writers out."""
        descriptor = self._descriptor
        if descriptor is None or self._dead is not None:
            descriptor = self._open_to_write()
        try:
            written = self._write(descriptor, data)
            if written != len(data):
                self._write_rest(descriptor, memoryview(data)[written:])
        except OSError as error:
            raise self._undone(descriptor, error, len(data)) from error
        self._size += len(data)

    def sync(self) -> None:
        """One ``fdatasync`` for all who wait; the directories as well the first time."""
        target = self._size
        with self._sync_lock:
            if self._dead is not None:
                raise self._dead
            if self._descriptor is None or (self._synced >= target and self._entries_synced):
                return
            mark = self._size
            try:
                self._documents.sync_pending()
                self._disk.sync(self._descriptor)
                if not self._entries_synced:
                    self._tree.sync(self._parts)
            except OSError as error:
                self._dead = SyncFailed(errno=error.errno)
                raise self._dead from error
            self._entries_synced = True
            self._synced = mark

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
                self._disk.close(descriptor)

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes of the file."""
        size = self.size()
        start = max(0, size - max_bytes)
        return start, b"".join(self.read(start))

    def size(self) -> int:
        """The size of the file, whoever wrote it."""
        with (
            translation(f"looking at {self._name()}"),
            self._tree.opened(self._parts) as directory,
        ):
            node = None if directory is None else self._disk.node_at(LOG_NAME, directory)
            return 0 if node is None else node.size

    def cut(self, offset: int, epoch: int) -> None:
        """Quarantine first, then truncate: a crash between the two does it again."""
        torn = b"".join(self.read(offset))
        if not torn:
            return
        # Named by place and content, so that doing it twice leaves one copy.
        self._documents.put(f"quarantine/torn-{offset}-{crc32(torn):08x}", torn)
        descriptor = self._open_to_write()
        with translation(f"cutting {self._name()}"):
            self._disk.truncate(descriptor, offset)
            self._disk.sync(descriptor)
        self._size = offset
        self._synced = min(self._synced, offset)

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write the new file whole, give the old one a name in quarantine, then rename."""
        self.close()
        with (
            translation(f"replacing {self._name()}"),
            self._tree.opened(self._parts, create=True) as directory,
        ):
            assert directory is not None
            self._write_new(directory, chunks)
            self._quarantine_old(directory)
            self._disk.rename(_NEW_LOG_NAME, directory, LOG_NAME, directory)
            self._tree.sync(self._parts)

    def generation(self) -> str:
        """The file's inode: replacing gives another one."""
        with (
            translation(f"looking at {self._name()}"),
            self._tree.opened(self._parts) as directory,
        ):
            node = None if directory is None else self._disk.node_at(LOG_NAME, directory)
            return "" if node is None else str(node.inode)

    def unsaved(self) -> bytes:
        """What was appended since the last sync, as the file has it."""
        return b"".join(self.read(self._synced))

    def close(self) -> None:
        """Close the file."""
        with self._sync_lock:
            if self._descriptor is not None:
                self._disk.close(self._descriptor)
                self._descriptor = None
                self._entries_synced = False

    def _name(self) -> str:
        return "/".join((*self._parts, LOG_NAME))

    def _open_to_write(self) -> int:
        if self._dead is not None:
            raise self._dead
        if self._descriptor is None:
            with (
                translation(f"opening {self._name()}"),
                self._tree.opened(self._parts, create=True) as directory,
            ):
                assert directory is not None
                self._descriptor = self._disk.open_log(LOG_NAME, directory, create=True)
                self._size = self._synced = self._disk.node(self._descriptor).size
        return self._descriptor

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

    def _undone(self, descriptor: int, error: OSError, size: int) -> Exception:
        """Take a half-written append back, so that the log ends with its last whole record."""
        try:
            self._disk.truncate(descriptor, self._size)
        except OSError:
            self._dead = StoreError(
                f"an append to {self._name()} failed half-way and could not be taken back",
                remedy="Open the session again; the torn bytes are then set aside.",
                errno=error.errno,
            )
            return self._dead
        failure = translated(error, f"appending to {self._name()}")
        if isinstance(failure, StoreFull):
            failure.fields["needed_bytes"] = size
        return failure

    def _write_new(self, directory: int, chunks: Iterable[bytes]) -> None:
        if self._disk.node_at(_NEW_LOG_NAME, directory) is not None:
            self._disk.unlink(_NEW_LOG_NAME, directory)
        descriptor = self._disk.open_new(_NEW_LOG_NAME, directory)
        try:
            for chunk in chunks:
                self._write_rest(descriptor, memoryview(chunk))
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _quarantine_old(self, directory: int) -> None:
        old = self._disk.node_at(LOG_NAME, directory)
        if old is None:
            return
        with self._tree.opened((*self._parts, "quarantine"), create=True) as quarantine:
            assert quarantine is not None
            name = f"generation-{old.inode}-{old.size}"
            if self._disk.node_at(name, quarantine) is None:
                self._disk.link(LOG_NAME, directory, name, quarantine)
            self._disk.sync_directory(quarantine)
