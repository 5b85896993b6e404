"""The file store: a directory that is complete by itself and can be copied by hand."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import groupby
from weakref import WeakValueDictionary

from holdfast.errors import Conflict, Forbidden, HoldfastError, NotFound, Unavailable, UsageError
from holdfast.model import check_id, is_id
from holdfast.storage._pieces import check_branch
from holdfast.storage._worker import FlushingStore, do_each
from holdfast.storage.base import (
    Capabilities,
    Changes,
    Entry,
    Pieces,
    Stamp,
    check_key,
    check_prefix,
    folder_of,
    is_session,
    needs_log,
)
from holdfast.storage.disk import Disk
from holdfast.storage.files.documents import FileDocuments
from holdfast.storage.files.forms import FileForms, inherit, making
from holdfast.storage.files.journal import Touched
from holdfast.storage.files.lease import FileLease
from holdfast.storage.files.log import FileLog, read_pieces
from holdfast.storage.files.parts import LOG_NAME, Look, look, open_parts
from holdfast.storage.files.spellings import Spellings
from holdfast.storage.files.tree import Tree, real_path, remove_tree, translated, translation

_MS = 1_000_000
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_DROPPED = ".dropped-"


class FileStore(FlushingStore):
    """``<root>/sessions/<id>/events.jsonl`` and its neighbours; see docs/internals/format.md."""

    capabilities = Capabilities(survives_kill=True, syncs=True, shared=True, archives=True, unique=True)

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise UsageError("a file store needs the path of a directory")
        super().__init__()
        self.path = real_path(text)
        self._tree = Tree(self.path, disk or Disk())
        self._disk = self._tree.disk
        self._touched = Touched(self._tree)
        self._spellings = Spellings(self._tree, self.exists)
        self._lock = threading.Lock()
        # Shared by all users, since a log's sync must cover documents put without one.
        self._documents: WeakValueDictionary[str, FileDocuments] = WeakValueDictionary()

    @cached_property
    def url(self) -> str:  # type: ignore[override]  # made when first asked for
        from pathlib import Path

        return Path(self.path).as_uri()

    @property
    def identity(self) -> str:
        """The path, and the disk if it is not the real one."""
        return self.path if type(self._disk) is Disk else f"{self.path}#{id(self._disk)}"

    def log(self, key: str) -> FileLog:
        """Return the key's ``events.jsonl``, or the files in its place."""
        documents = self._documents.get(key) or self.documents(key)
        return FileLog(self._tree, _parts(key), documents)

    def documents(self, key: str) -> FileDocuments:
        with self._lock:
            found = self._documents.get(key)
            if found is None:
                found = FileDocuments(self._tree, _parts(key))
                self._documents[key] = found
            return found

    def lease(self, key: str) -> FileLease:
        return FileLease(self._tree, _parts(key), self._touched, self._claim if is_session(key) else None)

    def exists(self, key: str) -> bool:
        """Return True if the log's files exist. Raises if that cannot be known."""
        with self._tree.opened(_parts(key), doing=f"looking for {key}") as directory:
            return directory is not None and look(self._disk, directory) is not None

    def clash(self, key: str) -> str | None:
        """Return a neighbour whose name differs only in case: on some systems it is the same file."""
        with translation(f"looking beside {key}"):
            others = self._spellings.others(_parts(key))
        return next((other for other in others if self.exists(other)), None)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        above = check_prefix(prefix)
        with translation(f"listing {prefix}"), self._tree.opened(above) as directory:
            for name, inode in () if directory is None else self._disk.scan_inodes(directory):
                if not is_id(name):
                    continue
                try:
                    entry = self._log_entry(prefix + name, (*above, name), inode)
                except (Forbidden, Unavailable):
                    continue  # files and symlinks beside the sessions are not ours
                if entry is not None:
                    with contextlib.suppress(HoldfastError, OSError):
                        self._spellings.note((*above, name))
                    yield entry

    def entry(self, key: str) -> Entry | None:
        with translation(f"looking for {key}"):
            return self._log_entry(key, _parts(key))

    def stamp(self, key: str) -> Stamp | None:
        """Return the stamp of a plain log; other forms have none that is quick."""
        try:
            node = self._tree.node_below(f"{key}/{LOG_NAME}")
        except OSError:
            return None
        return None if node is None else Stamp(node.inode, node.size, node.modified)

    def read_pieces(self, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
        return read_pieces(self._tree, starts, size)

    @contextmanager
    def kept_open(self, key: str) -> Iterator[bool]:
        parts = _parts(key)
        try:
            try:
                directory = self._tree.keep(parts)
                exists = directory is not None and look(self._disk, directory) is not None
            except OSError as error:
                if isinstance(error, HoldfastError):
                    raise
                raise translated(error, f"looking for {key}") from error
            yield exists
        finally:
            try:
                self._tree.walk_again(parts)
            except BaseException:
                self._tree.walk_again(parts)  # the first was interrupted
                raise

    def may_hold(self, key: str, folder: str) -> bool:
        """Check with one stat of the folder, without opening a session."""
        try:
            return self._tree.node_below(f"{key}/{folder}") is not None
        except OSError:
            return True

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """List them with one scan of the directory above; the marks are inodes."""
        above = check_prefix(prefix)
        with self._tree.opened(above, doing=f"listing {prefix}") as directory:
            found = () if directory is None else self._disk.scan_inodes(directory)
            known = {name: f"{inode:x}" for name, inode in found if is_id(name)}
            for name in [name for name in known if name.endswith(".md")]:
                # In a project's store people keep the files of their agents too, beside the folders.
                node = None if directory is None else self._disk.node_at(name, directory)
                if node is not None and not node.is_directory:
                    del known[name]
            return {prefix + name: mark for name, mark in known.items()}

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """Read the file ``touched`` and the time of the directory."""
        return self._touched.changes(mark, prefix)

    def catalog_place(self) -> str | None:
        """Return ``<root>/catalog.db``; None, for memory, on a disk that is not the real one."""
        return os.path.join(self.path, "catalog.db") if type(self._disk) is Disk else None

    def space_catalog_place(self, space: str) -> str | None:
        """Return ``<root>/spaces/<space>/catalog.db``, in the same way."""
        place = os.path.join(self.path, "spaces", check_id(space, what="space"), "catalog.db")
        return place if type(self._disk) is Disk else None

    def move(self, key: str, to: str) -> None:
        """Rename the directory under its lock, then sync both parents."""
        source, target = _parts(key), _parts(to)
        with translation(f"moving {key}"), self._held(key):
            if self._is_taken(to):
                raise Conflict(f"{to} is taken")
            with self._unique(to, key):
                self._make_room(to)
                self._rename(source, target)
        self._touched.note(to, held=False)
        with self._lock:
            # Their notes of unsynced documents went with the directory.
            self._documents.pop(key, None)
            self._documents.pop(to, None)

    def drop(self, key: str) -> None:
        """Hide it with one rename, then remove it; dropping it again removes what a crash left."""
        *above, name = _parts(key)
        with self._tree.opened(tuple(above), doing=f"dropping {key}") as directory:
            swept = directory is not None and remove_tree(self._disk, _DROPPED + name, directory)
        if not swept or self._has_content(key):
            self.drop_all([key])

    def drop_all(self, keys: Sequence[str]) -> None:
        """Hide each with a rename; those of a folder are synced together, then removed."""
        for folder, below in groupby(keys, folder_of):
            self._drop_below(folder, list(below))

    def _drop_below(self, folder: str, keys: list[str]) -> None:
        with self._tree.opened(check_prefix(folder), doing=f"dropping keys of {folder}") as directory:
            gone = []
            try:
                for key in keys:
                    name = _DROPPED + _parts(key)[-1]
                    with self._held(key):
                        assert directory is not None
                        remove_tree(self._disk, name, directory)
                        self._disk.rename(_parts(key)[-1], directory, name, directory)
                        gone.append(name)
            finally:
                # Before anything is removed: a crash leaves a key whole, or hidden.
                if directory is not None and gone:
                    self._disk.sync_directory(directory)
                    do_each(lambda name: remove_tree(self._disk, name, directory, sync=False), gone)
                    self._disk.sync_directory(directory)

    def forget(self, key: str) -> None:
        with contextlib.suppress(HoldfastError, OSError):
            self._make_room(key)

    def scrub(self) -> list[str]:
        """Also remove what crashes left of dropped keys."""
        with translation("scrubbing"):
            with self._tree.opened(("spaces",)) as spaces:
                inside = [] if spaces is None else self._disk.scan(spaces)
            places = [(), *(("spaces", name) for name in inside)]
            for folder in [(*above, kind) for above in places for kind in ("sessions", "trash")]:
                with self._tree.opened(folder) as directory:
                    names = [] if directory is None else self._disk.scan(directory)
                    for name in names:
                        if directory is not None and name.startswith(_DROPPED):
                            remove_tree(self._disk, name, directory)
        return []

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Make hard links to the log's files, in constant time, or a copy if links are impossible."""
        check_branch(self, key, to, size)
        target = _parts(to)
        with translation(f"branching {key}"), making(self._tree, target) as hidden:
            for name, data in (documents or {}).items():
                FileDocuments(self._tree, hidden).put(name, data)
            inherit(self._tree, _parts(key), hidden, size)
            with self._unique(to):
                self._make_room(to)
                self._rename(hidden, target)
        self._touched.note(to, held=False)

    def base_size(self, key: str) -> int:
        """Read ``base.json``, as far as the files exist."""
        found = self._look(key)
        return 0 if found is None else found.inherited

    def detach(self, key: str) -> None:
        """Write a branch as one ``events.jsonl`` of its own."""
        with translation(f"detaching {key}"), self._held_log(key) as found:
            if found.is_branch:
                FileForms(self._tree, _parts(key)).make_plain()

    def archive(self, key: str) -> None:
        """Write ``events.jsonl.zst``, read it back, then remove the old files."""
        with translation(f"archiving {key}"), self._held_log(key):
            FileForms(self._tree, _parts(key)).archive()

    def unarchive(self, key: str) -> None:
        """Write ``events.jsonl`` again, then remove the archive."""
        with translation(f"unarchiving {key}"), self._held_log(key) as found:
            if found.is_archived:
                FileForms(self._tree, _parts(key)).make_plain()

    def is_archived(self, key: str) -> bool:
        found = self._look(key)
        return found is not None and found.is_archived

    def location(self, key: str) -> str:
        return os.path.join(self.path, *_parts(key))

    def check(self) -> None:
        """Open the root if there is one, which refuses foreign, open and network directories."""
        with translation(f"opening {self.path}"):
            self._tree.root(create=False)

    def close(self) -> None:
        super().close()
        self._tree.close()

    def _look(self, key: str) -> Look | None:
        with self._tree.opened(_parts(key), doing=f"looking for {key}") as directory:
            return None if directory is None else look(self._disk, directory)

    def _log_entry(self, key: str, parts: tuple[str, ...], inode: int | None = None) -> Entry | None:
        archive = None
        with self._tree.opened(parts) as directory:
            found = None if directory is None else look(self._disk, directory)
            if directory is not None and inode is None:
                inode = self._disk.node(directory).inode
            if directory is not None and found is not None and found.is_archived:
                opened = open_parts(self._disk, directory)
                if opened is None:
                    return None
                with opened:
                    found, archive = opened.found, opened.archive()
        if found is None:
            return None
        size, modified = found.size, found.node.modified
        etag = f"{found.node.inode:x}-{size:x}-{modified:x}"
        if archive is not None:
            # As it was when the log was archived: archiving is no change in a list.
            size, modified = archive.size, modified if archive.modified is None else archive.modified
        return Entry(key, size, modified // _MS, etag, f"{inode:x}")

    def _claim(self, lease: FileLease) -> None:
        """Make sure that no namesake, case aside, of a key whose lease was just taken is created."""

        def give_up() -> None:
            lease.release()
            self.forget(lease.key)

        if not self.exists(lease.key):
            self._spellings.claim(_parts(lease.key), give_up)

    @contextmanager
    def _unique(self, key: str, besides: str = "") -> Iterator[None]:
        """Keep others from creating a namesake of a key that is about to get its name. Raises InvalidId."""
        if not is_session(key):
            yield
            return
        with self._spellings.alone(_parts(key)):
            self._spellings.check(_parts(key), besides)
            yield

    def _has_content(self, key: str) -> bool:
        """Return whether there is more at a key than a lock."""
        return self.exists(key) or bool(self.documents(key).names())

    def _is_taken(self, key: str) -> bool:
        return self.exists(key) or (not needs_log(key) and self._has_content(key))

    @contextmanager
    def _held(self, key: str) -> Iterator[None]:
        """Hold the lease of a key that has any data; NotFound if it has none."""
        # Checked before as well, since taking the lease creates a directory.
        if not self._has_content(key):
            raise NotFound(f"no such file or directory: {key}")
        with FileLease(self._tree, _parts(key), self._touched).held("store", 0):
            if not self._has_content(key):
                raise NotFound(f"no such file or directory: {key} any more")
            yield

    @contextmanager
    def _held_log(self, key: str) -> Iterator[Look]:
        """Hold the lease of a key that has a log; NotFound if it has none."""
        if self._look(key) is None:
            raise NotFound(f"there is no log at {key}")
        with self._held(key):
            found = self._look(key)
            if found is None:
                raise NotFound(f"there is no log at {key} any more")
            yield found

    def _make_room(self, key: str) -> None:
        """Remove the remains at a free key: a lock, or what a crash left of a beginning."""
        *above, name = _parts(key)
        with self._tree.opened(tuple(above)) as directory:
            if directory is None or self._disk.node_at(name, directory) is None:
                return
            with FileLease(self._tree, _parts(key), self._touched).held("store", 0):
                if self._is_taken(key):
                    raise Conflict(f"{key} is taken")
                remove_tree(self._disk, name, directory)

    def _rename(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with self._tree.opened(source[:-1]) as above, self._tree.opened(target[:-1], create=True) as below:
            assert above is not None
            assert below is not None
            # Before anything is moved there, the path must be durable.
            self._tree.sync(target[:-1])
            try:
                self._disk.rename(source[-1], above, target[-1], below)
            except OSError as error:
                if error.errno in _TAKEN:
                    raise Conflict(f"{'/'.join(target)} is taken") from error
                raise
            self._disk.sync_directory(below)
            self._disk.sync_directory(above)


@lru_cache(maxsize=1024)
def _parts(key: str) -> tuple[str, ...]:
    """Return the path components of a key, which is checked at its first use."""
    return tuple(check_key(key).split("/"))
