"""The file store: a directory that is complete by itself and can be copied by hand."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from holdfast.errors import Conflict, Forbidden, NotFound, Unavailable, UsageError
from holdfast.model import fold_id, is_id
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._file_lease import FileLease
from holdfast.storage._file_log import LOG_NAME, FileLog
from holdfast.storage._flusher import Flusher
from holdfast.storage._tree import Tree, let_go, translation
from holdfast.storage.base import (
    Capabilities,
    Entry,
    Lease,
    Log,
    Store,
    check_key,
    check_prefix,
    needs_log,
)
from holdfast.storage.disk import Disk

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["FileStore"]

_MS = 1_000_000
# Two changes of a directory within the clock's grain leave the same time on it.
_TIME_GRAIN_NS = 2_000_000_000
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_DROPPED = ".dropped-"


class FileStore(Store):
    """``<root>/sessions/<id>/events.jsonl`` and its neighbours; see docs/internals/format.md."""

    capabilities = Capabilities(survives_kill=True, syncs=True, shared=True)

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise UsageError("a file store needs the path of a directory")
        self.path = os.path.abspath(text)
        self._tree = Tree(self.path, disk or Disk())
        self._disk = self._tree.disk
        self._flusher = Flusher()
        self._folded: tuple[tuple[int, int], dict[str, list[str]]] | None = None
        self._lock = threading.Lock()
        # Shared by all who ask, since a log's sync must cover what was put without one.
        self._documents: WeakValueDictionary[str, FileDocuments] = WeakValueDictionary()

    @cached_property
    def url(self) -> str:  # type: ignore[override]
        """The path as an address."""
        from pathlib import Path

        return Path(self.path).as_uri()

    @property
    def identity(self) -> str:
        """The path, and the disk if it is not the real one."""
        return self.path if type(self._disk) is Disk else f"{self.path}#{id(self._disk)}"

    def log(self, key: str) -> Log:
        """The key's ``events.jsonl``."""
        return FileLog(self._tree, _parts(key), self.documents(key))

    def documents(self, key: str) -> FileDocuments:
        """The key's other files."""
        with self._lock:
            found = self._documents.get(key)
            if found is None:
                found = FileDocuments(self._tree, _parts(key))
                self._documents[key] = found
            return found

    def lease(self, key: str) -> Lease:
        """The key's ``lock``."""
        return FileLease(self._tree, _parts(key))

    def exists(self, key: str) -> bool:
        """Whether ``events.jsonl`` is there. Raises when that cannot be known."""
        with translation(f"looking for {key}"):
            return self._log_entry(key, _parts(key)) is not None

    def clash(self, key: str) -> str | None:
        """A neighbour whose name differs only by case: on some systems it is the same file."""
        *above, name = _parts(key)
        with translation(f"looking beside {key}"), self._tree.opened(tuple(above)) as directory:
            if directory is None:
                return None
            names = self._folded_names(directory).get(fold_id(name), [])
        others = ("/".join((*above, other)) for other in names if other != name)
        return next((other for other in others if self.exists(other)), None)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """On the flusher thread."""
        return self._flusher.sync(logs)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """One look at each session's directory."""
        above = check_prefix(prefix)
        with translation(f"listing {prefix}"):
            with self._tree.opened(above) as directory:
                names = [] if directory is None else self._disk.scan(directory)
            for name in filter(is_id, names):
                try:
                    entry = self._log_entry(prefix + name, (*above, name))
                except (Forbidden, Unavailable):
                    continue  # a file or a symlink beside the sessions is none of ours
                if entry is not None:
                    yield entry

    def move(self, key: str, to: str) -> None:
        """Rename the directory under its lock, then sync both parents."""
        source, target = _parts(key), _parts(to)
        with translation(f"moving {key}"), self._held(key):
            if self._is_taken(to):
                raise Conflict(f"{to} is taken")
            self._make_room(to)
            self._rename(source, target)
        with self._lock:
            # What these knew of unsynced documents went with the directory.
            self._documents.pop(key, None)
            self._documents.pop(to, None)

    def drop(self, key: str) -> None:
        """Out of sight with one rename, then removed piece by piece.

        A crash in between leaves what is out of sight; dropping the key again removes that too.
        """
        *above, name = _parts(key)
        with translation(f"dropping {key}"), self._tree.opened(tuple(above)) as directory:
            swept = directory is not None and self._sweep(_DROPPED + name, directory)
            if swept and not self._has_content(key):
                return
            with self._held(key):
                assert directory is not None
                self._disk.rename(name, directory, _DROPPED + name, directory)
                self._disk.sync_directory(directory)
            self._sweep(_DROPPED + name, directory)

    def location(self, key: str) -> str:
        """The path of the key's directory."""
        return os.path.join(self.path, *_parts(key))

    def check(self) -> None:
        """Open the root if there is one, which refuses foreign, open and network directories."""
        with translation(f"opening {self.path}"):
            self._tree.root(create=False)

    def close(self) -> None:
        """Stop the flusher and close the root."""
        self._flusher.close()
        self._tree.close()

    def _log_entry(self, key: str, parts: tuple[str, ...]) -> Entry | None:
        with self._tree.opened(parts) as directory:
            node = None if directory is None else self._disk.node_at(LOG_NAME, directory)
        if node is None:
            return None
        if node.is_symlink or node.is_directory:
            raise Forbidden(f"the log of {key} is not a file of the store")
        etag = f"{node.inode:x}-{node.size:x}-{node.modified:x}"
        return Entry(key, node.size, node.modified // _MS, etag)

    def _folded_names(self, directory: int) -> dict[str, list[str]]:
        """Names by their folded form, read again only when the directory has changed."""
        node = self._disk.node(directory)
        mark = (node.inode, node.modified)
        if self._folded is None or self._folded[0] != mark:
            folded: dict[str, list[str]] = {}
            for name in self._disk.scan(directory):
                folded.setdefault(fold_id(name), []).append(name)
            if time.time_ns() - node.modified < _TIME_GRAIN_NS:
                return folded  # too fresh to tell it from the next change
            self._folded = (mark, folded)
        return self._folded[1]

    def _has_content(self, key: str) -> bool:
        """Whether there is more at a key than a lock."""
        return self.exists(key) or bool(self.documents(key).names())

    def _is_taken(self, key: str) -> bool:
        return self.exists(key) or (not needs_log(key) and self._has_content(key))

    @contextmanager
    def _held(self, key: str) -> Iterator[None]:
        """Hold the lease of a key that has something; NotFound if it has not."""
        # Looked at before too, since taking the lease makes a directory.
        if not self._has_content(key):
            raise NotFound(f"there is nothing at {key}")
        lease = self.lease(key)
        lease.acquire("store", 0)
        try:
            if not self._has_content(key):
                raise NotFound(f"there is nothing at {key} any more")
            yield
        finally:
            lease.release()

    def _make_room(self, key: str) -> None:
        """Remove what a key has that is not taken: a lock, or what a crash left of a beginning."""
        *above, name = _parts(key)
        with self._tree.opened(tuple(above)) as directory:
            if directory is None or self._disk.node_at(name, directory) is None:
                return
            lease = self.lease(key)
            lease.acquire("store", 0)
            try:
                if self._is_taken(key):
                    raise Conflict(f"{key} is taken")
                self._sweep(name, directory)
            finally:
                lease.release()

    def _rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with (
            self._tree.opened(source[:-1]) as above,
            self._tree.opened(target[:-1], create=True) as below,
        ):
            assert above is not None
            assert below is not None
            # Before anything is moved there, the way there must be safe.
            self._tree.sync(target[:-1])
            try:
                self._disk.rename(source[-1], above, target[-1], below)
            except OSError as error:
                if error.errno in _TAKEN:
                    raise Conflict(f"{'/'.join(target)} is taken") from error
                raise
            self._disk.sync_directory(below)
            self._disk.sync_directory(above)

    def _sweep(self, name: str, above: int) -> bool:
        """Remove a directory with all that is in it; whether it was there."""
        if self._disk.node_at(name, above) is None:
            return False
        directory = self._disk.open_directory(name, above)
        try:
            self._empty(directory)
        finally:
            let_go(self._disk, directory)
        self._disk.remove_directory(name, above)
        self._disk.sync_directory(above)
        return True

    def _empty(self, directory: int) -> None:
        for name in self._disk.scan(directory):
            node = self._disk.node_at(name, directory)
            if node is None:
                continue
            if not node.is_directory:
                self._disk.unlink(name, directory)
                continue
            below = self._disk.open_directory(name, directory)
            try:
                self._empty(below)
            finally:
                let_go(self._disk, below)
            self._disk.remove_directory(name, directory)


def _parts(key: str) -> tuple[str, ...]:
    return tuple(check_key(key).split("/"))
