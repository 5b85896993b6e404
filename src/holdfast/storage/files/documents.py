"""Documents as files, replaced by rename."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import Conflict
from holdfast.storage.base import Documents, check_document_name, etag_of, is_document_name
from holdfast.storage.files.tree import Tree, let_go, read_all, reading, translation, write_all

_TEMPORARY = ".tmp-"
_CAS_LOCK = ".documents-lock"
_UNSYNCED_MARK = ".unsynced"


class FileDocuments(Documents):
    """Each document is one file below the key's directory.

    While documents wait for their sync there is a file ``.unsynced``: if this process is killed, the
    next one that opens the key syncs them all before it syncs lines that may refer to them.
    """

    def __init__(self, tree: Tree, parts: tuple[str, ...]) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._parts = parts
        self._pending: dict[tuple[str, ...], set[str]] = {}
        self._putting = 0
        self._marked = False
        self._inherits = True
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Write a temporary file in the same directory, sync it, rename it, sync the directory."""
        folder, leaf = self._split(name)
        with translation(f"putting {name}"), self._exclusive(if_match):
            if if_match is not None:
                found = self.get(name)
                etag = found[1] if found else ""
                if etag != if_match:
                    raise Conflict(f"{name} is not what it was", etag=etag)
            if sync:
                self._put_file(folder, leaf, data, sync=True)
                self._tree.sync(folder)
            else:
                self._put_unsynced(folder, leaf, data)
        return etag_of(data)

    def get(self, name: str) -> tuple[bytes, str] | None:
        folder, leaf = self._split(name)
        with self._tree.opened(folder, doing=f"reading {name}") as directory:
            data = None if directory is None else self._read(leaf, directory)
        return None if data is None else (data, etag_of(data))

    def names(self, prefix: str = "") -> list[str]:
        """Return the files below the key's directory that are documents; only the folder asked for."""
        folder, slash, begins = prefix.rpartition("/")
        if folder and not is_document_name(folder):
            return []
        parts = (*self._parts, *folder.split("/")) if folder else self._parts
        found = sorted(self._walk(parts, folder + slash))
        return [name for name in found if name.startswith(prefix)] if begins else found

    def delete(self, name: str) -> bool:
        folder, leaf = self._split(name)
        with self._tree.opened(folder, doing=f"deleting {name}") as directory:
            if directory is None or self._disk.node_at(leaf, directory) is None:
                return False
            self._disk.unlink(leaf, directory)
            self._disk.sync_directory(directory)
        return True

    def sync_pending(self) -> None:
        """Sync documents put without it, also by a process that died. Lets OSError through; the rest stays pending."""
        with self._lock:
            pending, self._pending = self._pending, {}
        try:
            if self._inherits:
                self._add_inherited(pending)
                self._inherits = False
            for folder, leaves in pending.items():
                self._sync_folder(folder, leaves)
        except BaseException:
            with self._lock:
                for folder, leaves in pending.items():
                    self._pending.setdefault(folder, set()).update(leaves)
            raise
        self._unmark()

    def _put_unsynced(self, folder: tuple[str, ...], leaf: str, data: bytes) -> None:
        with self._lock:
            self._putting += 1
            if not self._marked:
                self._mark()
                self._marked = True
        try:
            self._put_later(folder, leaf, data)
            with self._lock:
                self._pending.setdefault(folder, set()).add(leaf)
        finally:
            with self._lock:
                self._putting -= 1

    def _put_later(self, folder: tuple[str, ...], leaf: str, data: bytes) -> None:
        """Put without a sync, but never over bytes that may be durable: those are replaced only by synced ones."""
        with self._tree.opened(folder) as directory:
            old = None if directory is None else self._read(leaf, directory)
        if old != data:
            self._put_file(folder, leaf, data, sync=old is not None)

    def _mark(self) -> None:
        with self._tree.opened(self._parts, create=True) as directory:
            assert directory is not None
            let_go(self._disk, self._disk.open_lock(_UNSYNCED_MARK, directory))

    def _unmark(self) -> None:
        """Remove the mark, unless more documents have become pending."""
        with self._lock:
            if not self._marked or self._pending or self._putting:
                return
            with self._tree.opened(self._parts) as directory:
                if directory is not None:
                    with contextlib.suppress(FileNotFoundError):
                        self._disk.unlink(_UNSYNCED_MARK, directory)
            self._marked = False

    def _add_inherited(self, pending: dict[tuple[str, ...], set[str]]) -> None:
        """Add all documents of the key, if a process died with some unsynced."""
        with self._tree.opened(self._parts) as directory:
            if directory is None or self._disk.node_at(_UNSYNCED_MARK, directory) is None:
                return
        for name in self._walk(self._parts, ""):
            folder, leaf = self._split(name)
            pending.setdefault(folder, set()).add(leaf)
        self._marked = True

    def _sync_folder(self, folder: tuple[str, ...], leaves: set[str]) -> None:
        with self._tree.opened(folder) as directory:
            if directory is None:
                return
            for leaf in sorted(leaves):
                with contextlib.suppress(FileNotFoundError), reading(self._disk, leaf, directory) as descriptor:
                    self._disk.sync(descriptor)
        self._tree.sync(folder)

    def _split(self, name: str) -> tuple[tuple[str, ...], str]:
        check_document_name(name)
        *folders, leaf = name.split("/")
        return (*self._parts, *folders), leaf

    @contextmanager
    def _exclusive(self, if_match: str | None) -> Iterator[None]:
        """Exclude other writers between comparing and replacing."""
        if if_match is None:
            yield
            return
        with self._tree.opened(self._parts, create=True) as directory:
            assert directory is not None
            descriptor = self._disk.open_lock(_CAS_LOCK, directory)
        try:
            self._disk.lock(descriptor, wait=True)
            yield
        finally:
            let_go(self._disk, descriptor)

    def _put_file(self, folder: tuple[str, ...], leaf: str, data: bytes, *, sync: bool) -> None:
        with self._tree.opened(folder, create=True) as directory:
            assert directory is not None
            temporary = _TEMPORARY + leaf
            descriptor = self._open_temporary(temporary, directory)
            try:
                write_all(self._disk, descriptor, data)
                if sync:
                    self._disk.sync(descriptor)
                self._disk.rename(temporary, directory, leaf, directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._disk.unlink(temporary, directory)
                raise
            finally:
                let_go(self._disk, descriptor)

    def _open_temporary(self, temporary: str, directory: int) -> int:
        """Return the temporary file, locked: another writer of the same name waits; one left by a crash is reused."""
        while True:
            descriptor = self._disk.open_lock(temporary, directory)
            try:
                self._disk.lock(descriptor, wait=True)
                node = self._disk.node_at(temporary, directory)
                if node is not None and node.inode == self._disk.node(descriptor).inode:
                    if node.links == 1:
                        self._disk.truncate(descriptor, 0)
                        return descriptor
                    self._disk.unlink(temporary, directory)  # another file as well: it stays
            except BaseException:
                let_go(self._disk, descriptor)
                raise
            # The holder of the lock has renamed it: this file is the document now.
            let_go(self._disk, descriptor)

    def _read(self, leaf: str, directory: int) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), reading(self._disk, leaf, directory) as descriptor:
            return b"".join(read_all(self._disk, descriptor))
        return None

    def _walk(self, parts: tuple[str, ...], prefix: str) -> Iterator[str]:
        with self._tree.opened(parts, doing="listing documents") as directory:
            if directory is None:
                return
            for name in self._disk.scan(directory):
                node = self._disk.node_at(name, directory)
                if node is None or node.is_symlink or not is_document_name(prefix + name):
                    continue
                if node.is_directory:
                    yield from self._walk((*parts, name), f"{prefix}{name}/")
                else:
                    yield prefix + name
