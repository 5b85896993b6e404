"""Documents as files, replaced by rename."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import Conflict
from holdfast.storage._tree import Tree, translation
from holdfast.storage.base import CHUNK_BYTES, Documents, check_document_name

__all__ = ["FileDocuments"]

_TEMPORARY = ".tmp-"
_CAS_LOCK = ".documents-lock"
# Files of a key that are not documents.
_RESERVED = frozenset(["events.jsonl", "events.jsonl.new", "lock", _CAS_LOCK])


class FileDocuments(Documents):
    """Each document one file below the key's directory."""

    def __init__(self, tree: Tree, parts: tuple[str, ...]) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._parts = parts
        self._pending: dict[tuple[str, ...], set[str]] = {}
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Temporary file in the same directory, sync, rename, sync of the directory."""
        folder, leaf = self._split(name)
        with translation(f"putting {name}"), self._exclusive(if_match):
            if if_match is not None:
                self._check_match(name, if_match)
            with self._tree.opened(folder, create=True) as directory:
                assert directory is not None
                self._replace(leaf, data, directory, sync=sync)
            if sync:
                self._tree.sync(folder)
            else:
                with self._lock:
                    self._pending.setdefault(folder, set()).add(leaf)
        return _etag(data)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """The bytes of the file."""
        folder, leaf = self._split(name)
        with translation(f"reading {name}"), self._tree.opened(folder) as directory:
            data = None if directory is None else self._read(leaf, directory)
        return None if data is None else (data, _etag(data))

    def names(self, prefix: str = "") -> list[str]:
        """The files below the key's directory that are documents."""
        with translation("listing documents"):
            return sorted(name for name in self._walk(self._parts, "") if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Unlink and sync the directory."""
        folder, leaf = self._split(name)
        with translation(f"deleting {name}"), self._tree.opened(folder) as directory:
            if directory is None or self._disk.node_at(leaf, directory) is None:
                return False
            self._disk.unlink(leaf, directory)
            self._disk.sync_directory(directory)
        return True

    def sync_pending(self) -> None:
        """Sync the documents that were put without it. Lets OSError through."""
        with self._lock:
            pending, self._pending = self._pending, {}
        for folder, leaves in pending.items():
            with self._tree.opened(folder) as directory:
                if directory is None:
                    continue
                for leaf in sorted(leaves):
                    self._sync_file(leaf, directory)
            self._tree.sync(folder)

    def _split(self, name: str) -> tuple[tuple[str, ...], str]:
        check_document_name(name)
        *folders, leaf = name.split("/")
        return (*self._parts, *folders), leaf

    @contextmanager
    def _exclusive(self, if_match: str | None) -> Iterator[None]:
        """Between comparing and replacing nobody else may replace."""
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
            self._disk.close(descriptor)

    def _check_match(self, name: str, if_match: str) -> None:
        found = self.get(name)
        if (found[1] if found else "") != if_match:
            raise Conflict(f"{name} is not what it was", etag=found[1] if found else "")

    def _replace(self, leaf: str, data: bytes, directory: int, *, sync: bool) -> None:
        temporary = _TEMPORARY + leaf
        if self._disk.node_at(temporary, directory) is not None:
            self._disk.unlink(temporary, directory)
        descriptor = self._disk.open_new(temporary, directory)
        try:
            rest = memoryview(data)
            while rest:
                written = self._disk.write(descriptor, rest)
                if not written:
                    raise OSError(0, "the disk takes no more bytes")
                rest = rest[written:]
            if sync:
                self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.rename(temporary, directory, leaf, directory)

    def _sync_file(self, leaf: str, directory: int) -> None:
        try:
            descriptor = self._disk.open_read(leaf, directory)
        except FileNotFoundError:
            return
        try:
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _read(self, leaf: str, directory: int) -> bytes | None:
        try:
            descriptor = self._disk.open_read(leaf, directory)
        except FileNotFoundError:
            return None
        try:
            chunks = []
            offset = 0
            while chunk := self._disk.read_at(descriptor, CHUNK_BYTES, offset):
                chunks.append(chunk)
                offset += len(chunk)
            return b"".join(chunks)
        finally:
            self._disk.close(descriptor)

    def _walk(self, parts: tuple[str, ...], prefix: str) -> Iterator[str]:
        with self._tree.opened(parts) as directory:
            if directory is None:
                return
            for name in self._disk.scan(directory):
                node = self._disk.node_at(name, directory)
                if node is None or name.startswith(".") or prefix + name in _RESERVED:
                    continue
                if node.is_directory:
                    yield from self._walk((*parts, name), f"{prefix}{name}/")
                elif not node.is_symlink:
                    yield prefix + name


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
