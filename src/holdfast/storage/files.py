"""The file store: a directory that is complete by itself and can be copied by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from weakref import WeakValueDictionary

from holdfast.errors import Conflict, NotFound, UsageError
from holdfast.model import fold_id
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._file_lease import FileLease
from holdfast.storage._file_log import LOG_NAME, FileLog
from holdfast.storage._flusher import Flusher
from holdfast.storage._tree import Tree, translation
from holdfast.storage.base import Capabilities, Entry, Lease, Log, Store, check_key
from holdfast.storage.disk import Disk

__all__ = ["FileStore"]

_MS = 1_000_000


class FileStore(Store):
    """``<root>/sessions/<id>/events.jsonl`` and its neighbours; see docs/internals/format.md."""

    capabilities = Capabilities(survives_kill=True, syncs=True, shared=True)

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise UsageError("a file store needs the path of a directory")
        self.path = os.path.abspath(text)
        self.url = Path(self.path).as_uri()
        self._tree = Tree(self.path, disk or Disk())
        self._disk = self._tree.disk
        self._flusher = Flusher()
        self._folded: tuple[int, dict[str, str]] | None = None
        # Shared by all who ask, since a log's sync must cover what was put without one.
        self._documents: WeakValueDictionary[str, FileDocuments] = WeakValueDictionary()

    def log(self, key: str) -> Log:
        """The key's ``events.jsonl``."""
        return FileLog(self._tree, _parts(key), self.documents(key))

    def documents(self, key: str) -> FileDocuments:
        """The key's other files."""
        found = self._documents.get(key)
        if found is None:
            found = FileDocuments(self._tree, _parts(key))
            self._documents[key] = found
        return found

    def lease(self, key: str) -> Lease:
        """The key's ``lock``."""
        return FileLease(self._tree, _parts(key))

    def exists(self, key: str) -> bool:
        """Whether ``events.jsonl`` is there."""
        with translation(f"looking for {key}"):
            return self._log_entry(key, _parts(key)) is not None

    def clash(self, key: str) -> str | None:
        """A neighbour whose name differs only by case: on some systems it is the same file."""
        *above, name = _parts(key)
        with translation(f"looking beside {key}"), self._tree.opened(tuple(above)) as directory:
            if directory is None:
                return None
            other = self._folded_names(directory).get(fold_id(name))
        return None if other is None or other == name else "/".join((*above, other))

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """On the flusher thread."""
        return self._flusher.sync(logs)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """One look at each session's directory."""
        above = tuple(part for part in prefix.split("/") if part)
        with translation(f"listing {prefix}"):
            with self._tree.opened(above) as directory:
                names = [] if directory is None else self._disk.scan(directory)
            for name in names:
                parts = (*above, name)
                entry = self._log_entry("/".join(parts), parts)
                if entry is not None:
                    yield entry

    def move(self, key: str, to: str) -> None:
        """Rename the directory under its lock, then sync both parents."""
        source, target = _parts(key), _parts(to)
        with translation(f"moving {key}"), self._tree.opened(source) as directory:
            if directory is None:
                raise NotFound(f"there is nothing at {key}")
            lease = self.lease(key)
            lease.acquire("move", 0)
            try:
                self._rename(source, target)
            finally:
                lease.release()

    def drop(self, key: str) -> None:
        """The log goes first: without it the key is gone, whatever a crash leaves of the rest."""
        parts = _parts(key)
        with translation(f"dropping {key}"), self._tree.opened(parts) as directory:
            if directory is None:
                raise NotFound(f"there is nothing at {key}")
            lease = self.lease(key)
            lease.acquire("drop", 0)
            try:
                if self._disk.node_at(LOG_NAME, directory) is not None:
                    self._disk.unlink(LOG_NAME, directory)
                self._empty(directory)
            finally:
                lease.release()
            with self._tree.opened(parts[:-1]) as above:
                assert above is not None
                self._disk.remove_directory(parts[-1], above)
                self._disk.sync_directory(above)

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
        try:
            with self._tree.opened(parts) as directory:
                node = None if directory is None else self._disk.node_at(LOG_NAME, directory)
        except OSError:  # a file or a symlink beside the sessions is none of ours
            return None
        if node is None or node.is_symlink or node.is_directory:
            return None
        etag = f"{node.inode:x}-{node.size:x}-{node.modified:x}"
        return Entry(key, node.size, node.modified // _MS, etag)

    def _folded_names(self, directory: int) -> dict[str, str]:
        """Names by their folded form, read again only when the directory has changed."""
        node = self._disk.node(directory)
        mark = hash((node.inode, node.modified))
        if self._folded is None or self._folded[0] != mark:
            self._folded = (mark, {fold_id(name): name for name in self._disk.scan(directory)})
        return self._folded[1]

    def _rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with (
            self._tree.opened(source[:-1]) as above,
            self._tree.opened(target[:-1], create=True) as below,
        ):
            assert above is not None
            assert below is not None
            if self._disk.node_at(target[-1], below) is not None:
                raise Conflict(f"{'/'.join(target)} is taken")
            self._disk.rename(source[-1], above, target[-1], below)
            self._tree.sync(target[:-1])
            self._disk.sync_directory(above)

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
                self._disk.close(below)
            self._disk.remove_directory(name, directory)


def _parts(key: str) -> tuple[str, ...]:
    return tuple(check_key(key).split("/"))
