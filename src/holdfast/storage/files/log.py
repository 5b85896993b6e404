"""A log in files."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.errors import HoldfastError, StoreError, StoreFull, SyncFailed
from holdfast.model import is_id
from holdfast.storage.base import Log, Pieces, Stamp, check_prefix, folder_of
from holdfast.storage.files.documents import FileDocuments
from holdfast.storage.files.forms import FileForms
from holdfast.storage.files.lease import forget_settled, note_settled, read_settled
from holdfast.storage.files.parts import LOG_NAME, OWN_NAME, OpenLog, log_size, look, open_parts
from holdfast.storage.files.tree import NO_DESCRIPTOR, Tree, let_go, translated, translation, write_all

if TYPE_CHECKING:
    from holdfast.storage.disk import Disk

# For each open log: with many of them it adds up, and appends cannot reuse memory that is kept.
_KEPT_BYTES_MAX = 1 << 20


class FileLog(Log):
    """The log of one key: appended with one ``write``, synced with one ``fdatasync``.

    It has one of the forms that ``parts.py`` describes. Offsets count from the log's beginning, whatever file it is
    in; only the positions in the current file count from that file's own beginning.
    """

    def __init__(self, tree: Tree, parts: tuple[str, ...], documents: FileDocuments) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._write = tree.disk.write
        self._parts = parts
        self._name = "/".join((*parts, LOG_NAME))
        self._documents = documents
        self._inherited = 0
        self._descriptor: int | None = None
        # The current file: its name below the root of the store, and its inode.
        self._place = ("", 0)
        self._size = 0
        self._found = 0
        self._synced = 0
        self._entries_synced = False
        # After a failed sync the kernel may have dropped data of the file, so everything appended since the last sync
        # is kept here, up to a bound.
        self._kept: list[bytes] = []
        self._dead: HoldfastError | None = None
        self._open_lock = threading.Lock()
        self._sync_lock = threading.Lock()

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Write lines; the descriptor's lock keeps other writers out."""
        descriptor = self._descriptor
        if descriptor is None or self._dead is not None:
            descriptor = self._open_to_write()
        write = self._write
        size = len(data)
        end = self._size + size
        try:
            written = write(descriptor, data)
            if written != size:
                write_all(self._disk, descriptor, memoryview(data)[written:])
            self._size = end
            if end - self._synced <= _KEPT_BYTES_MAX:
                self._kept.append(data)
        except BaseException as error:
            self._take_back(descriptor, data, end - size, error)
            raise

    def sync(self) -> None:
        """Make one ``fdatasync`` for all waiters; the first time also sync the directories."""
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
                if error.errno in NO_DESCRIPTOR:
                    # The path could not be opened; no sync has failed, so the next one may succeed.
                    raise translated(error, f"syncing {self._name}") from error
                self._dead = SyncFailed(errno=error.errno)
                raise self._dead from error
            if not self._is_in_place():
                self._dead = SyncFailed(
                    f"{self._name} was removed or replaced by somebody else while it was written",
                    remedy="Stop what cleans up or restores inside of the store, then open the session again;"
                    " `.unsaved` holds what was recorded since the last flush.",
                )
                raise self._dead
            self._synced = max(self._synced, mark)
            del self._kept[:kept]

    def read(self, start: int = 0) -> Iterator[bytes]:
        with self._tree.opened(self._parts, doing=f"reading {self._name}") as directory:
            opened = None if directory is None else open_parts(self._disk, directory, start)
        if opened is None:
            return
        try:
            yield from opened.read(start)
        except OSError as error:
            if isinstance(error, HoldfastError):
                raise
            raise translated(error, f"reading {self._name}") from error
        finally:
            opened.close()

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        with translation(f"reading {self._name}"):
            opened = self._open_to_read(-max_bytes)
            if opened is None:
                return 0, b""
            with opened:
                start = max(0, opened.size() - max_bytes)
                return start, b"".join(opened.read(start))

    def read_part(self, start: int, stop: int) -> bytes:
        """Return some bytes of the files, directly if they are in one."""
        with translation(f"reading {self._name}"):
            opened = self._open_to_read(start)
            if opened is None:
                return b""
            with opened:
                if opened.found.is_plain:
                    return self._disk.read_at(opened.files[0][1], stop - start, start)
        return super().read_part(start, stop)

    def size(self) -> int:
        with self._tree.opened(self._parts, doing=f"looking at {self._name}") as directory:
            return 0 if directory is None else log_size(self._disk, directory)

    def cut(self, offset: int, epoch: int) -> None:
        """Quarantine first, then truncate: a crash between the two repeats it."""
        torn = b"".join(self.read(offset))
        if not torn:
            return
        # Named by place and content, so that repeating it leaves one copy.
        self._documents.put(f"quarantine/torn-{offset}-{crc32(torn):08x}", torn)
        descriptor = self._open_to_write()
        with translation(f"looking at {self._name}"):
            # Another key may share its bytes by another name of the file.
            is_shared = offset < self._inherited or self._disk.node(descriptor).links > 1
        if is_shared:
            # Keys that share the files keep them unchanged; the kept bytes become a file of their own. Closed before,
            # so that no append can ever go to a file that the log has left.
            self.close()
            self._size = self._synced = self._found = 0
            self._kept.clear()
            with translation(f"cutting {self._name}"):
                FileForms(self._tree, self._parts).make_plain(offset)
            return
        try:
            self._disk.truncate(descriptor, offset - self._inherited)
            self._disk.sync(descriptor)
        except OSError as error:
            # The state of the file is unknown now; another opening will see.
            self._dead = SyncFailed(f"cutting {self._name} failed", errno=error.errno)
            raise self._dead from error
        self._size = self._synced = self._found = offset - self._inherited
        self._kept.clear()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write the new file completely, give the old one a name in quarantine, then rename."""
        self.close()
        with translation(f"replacing {self._name}"):
            # The descriptor number of the old file may be reused.
            with self._tree.opened(self._parts) as directory:
                if directory is not None:
                    forget_settled(self._disk, directory)
            FileForms(self._tree, self._parts).replace(chunks)

    def overwrite(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write the new file completely, then rename; the old files are removed after that."""
        self.close()
        with translation(f"overwriting {self._name}"), self._tree.opened(self._parts, create=True) as directory:
            assert directory is not None
            found = look(self._disk, directory)
            # A note of this generation cannot be mistaken for the next: that has another inode.
            forget_settled(self._disk, directory, known="" if found is None else str(found.mark))
            FileForms(self._tree, self._parts).overwrite(directory, chunks, found)

    def generation(self) -> str:
        """Return the file's inode: replacing changes it."""
        with self._tree.opened(self._parts, doing=f"looking at {self._name}") as directory:
            found = None if directory is None else look(self._disk, directory)
        return "" if found is None else str(found.mark)

    def settled(self) -> int:
        """Read the note that the last writer left in its lock file when it closed the log."""
        with self._tree.opened(self._parts, doing=f"looking at {self._name}") as directory:
            if directory is None:
                return 0
            mark, size = read_settled(self._disk, directory)
            found = look(self._disk, directory) if mark else None
        return size if found is not None and str(found.mark) == mark else 0

    def damage(self) -> str:
        """Report missing frames of an archive, or missing inherited bytes."""
        with translation(f"reading {self._name}"):
            opened = self._open_to_read()
            if opened is None:
                return ""
            with opened:
                return opened.damage()

    def unsaved(self) -> bytes:
        """Return what was appended since the last sync, from memory if it was kept."""
        if self._size - self._synced <= _KEPT_BYTES_MAX:
            return b"".join(self._kept)
        return b"".join(self.read(self._inherited + self._synced))

    def close(self) -> None:
        """Close the file, and note how much of it is durable."""
        with self._sync_lock, self._open_lock:
            # Whether everything appended here, and the path to it, is on the medium. What was found may end in a torn
            # record, which was never acknowledged.
            is_safe = self._entries_synced and self._found < self._size == self._synced
            try:
                if self._descriptor is not None and self._dead is None and is_safe:
                    self._note_settled()
            finally:
                descriptor, self._descriptor = self._descriptor, None
                self._entries_synced = False
                if descriptor is not None:
                    let_go(self._disk, descriptor)

    def _note_settled(self) -> None:
        with contextlib.suppress(OSError), self._tree.opened(self._parts) as directory:
            found = None if directory is None else look(self._disk, directory)
            whole = self._disk.read_at(self._descriptor or 0, 1, self._size - 1) == b"\n"
            if directory is not None and found is not None and whole:
                size = self._inherited + self._size
                note_settled(self._disk, directory, str(found.mark), size)

    def _sync_all(self) -> bool:
        """Sync the documents that lines may refer to, the lines, and their path; return whether there was a log."""
        self._documents.sync_pending()
        descriptor = self._descriptor
        if descriptor is not None:
            self._disk.sync(descriptor)
        inherits = self._inherited > 0 and not self._entries_synced
        if descriptor is None or inherits:
            # Nothing was appended here yet, but an earlier process may have died before its sync.
            opened = self._open_to_read()
            if opened is None:
                return False
            with opened:
                opened.sync()
        if not self._entries_synced:
            self._tree.sync(self._parts)
        return True

    def _is_in_place(self) -> bool:
        """Return whether the current file still has its name: syncing it is pointless otherwise."""
        if self._descriptor is None:
            return True
        path, inode = self._place
        try:
            node = self._tree.node_below(path)
        except OSError:
            return True  # unknown
        return node is not None and node.inode == inode

    def _open_to_read(self, start: int = 0) -> OpenLog | None:
        with self._tree.opened(self._parts, doing=f"reading {self._name}") as directory:
            return None if directory is None else open_parts(self._disk, directory, start)

    def _open_to_write(self) -> int:
        if self._dead is not None:
            raise self._dead.with_traceback(None)
        with self._open_lock:
            if self._descriptor is None:
                doing = f"opening {self._name}"
                with self._tree.opened(self._parts, create=True, doing=doing) as directory:
                    assert directory is not None
                    self._descriptor = self._opened(directory)
            return self._descriptor

    def _opened(self, directory: int) -> int:
        """Return the file and its size, the only right place to go back to."""
        found = FileForms(self._tree, self._parts).ready_to_write(directory)
        branch = found is not None and found.is_branch
        self._inherited = found.inherited if found is not None else 0
        name = OWN_NAME if branch else LOG_NAME
        descriptor = self._disk.open_log(name, directory, create=True)
        try:
            node = self._disk.node(descriptor)
            self._size = self._synced = self._found = node.size
            self._place = ("/".join((*self._parts, name)), node.inode)
        except BaseException:
            let_go(self._disk, descriptor)
            raise
        self._entries_synced = False
        self._kept.clear()
        return descriptor

    def _take_back(self, descriptor: int, data: bytes, start: int, error: BaseException) -> None:
        """Undo a failed append, so that the log ends with its last complete record.

        Raises the typed error of the disk; returns if it was something else, such as an interrupt
        of the program. If it cannot be undone the log is dead.
        """
        self._dead = StoreError(
            f"an append to {self._name} failed half-way and could not be taken back",
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
            failure = translated(error, f"appending to {self._name}")
            if isinstance(failure, StoreFull):
                failure.fields["needed_bytes"] = len(data)
            raise failure from error

    def _cut_back(self, descriptor: int, start: int, size_max: int) -> bool:
        """Remove what a failed append left; return False if that is impossible, or others share the bytes."""
        try:
            size = self._disk.node(descriptor).size
            ours = start <= size <= start + size_max
            if ours and size > start:
                self._disk.truncate(descriptor, start)
        except OSError:
            return False
        return ours


# Reading short pieces of many logs: the folder above them is opened once, each log once.
_checked = lru_cache(maxsize=16)(check_prefix)


def read_pieces(tree: Tree, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
    """Return the bytes of each log at these places; logs that cannot be read this way, such as forks, are left out."""
    found: dict[str, Pieces] = {}
    for above, keys in groupby(starts, folder_of):
        try:
            with tree.opened(_checked(above)) as folder:
                if folder is None:
                    continue
                for key in keys:
                    name = key[len(above) :]
                    pieces = _read(tree.disk, folder, name, starts[key], size)
                    if pieces is not None:
                        found[key] = pieces
        except (OSError, HoldfastError):
            continue  # reading the log itself reports what is wrong
    return found


def _read(disk: Disk, folder: int, name: str, starts: Sequence[int], size: int) -> Pieces | None:
    if not is_id(name):
        return None
    opened: list[int] = []
    try:
        directory = disk.open_directory(name, folder)
        opened.append(directory)
        try:
            log = disk.open_read(LOG_NAME, directory)
        except FileNotFoundError:
            return _read_archived(disk, directory, starts, size)
        opened.append(log)
        node = disk.node(log)
        stamp = Stamp(node.inode, node.size, node.modified)
        return Pieces(stamp, [disk.read_at(log, size, start) for start in starts])
    except (OSError, HoldfastError):
        return None
    finally:
        for descriptor in opened:
            let_go(disk, descriptor)


def _read_archived(disk: Disk, directory: int, starts: Sequence[int], size: int) -> Pieces | None:
    with open_parts(disk, directory) or contextlib.nullcontext() as opened:
        archive = None if opened is None else opened.archive()
        found = None if archive is None else archive.pieces(starts, size)
    return None if found is None else Pieces(None, found)
