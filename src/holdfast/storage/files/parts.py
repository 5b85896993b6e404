"""The files that make up a key's log, and how they are read as one.

A log is the first of these that exists:

1. ``events.jsonl``, plain;
2. ``events.jsonl.zst``, archived;
3. ``base.jsonl`` and ``own.jsonl``: a branch. ``base.json`` says how many bytes of ``base.jsonl``,
   ``base.2.jsonl`` and so on belong to it; they are other names of other keys' files, which may
   have grown since. ``own.jsonl`` is what came after.

So one rename turns one form into another, whatever is left of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from stat import S_IFDIR, S_IFLNK, S_IFMT
from typing import TYPE_CHECKING, Self

import msgspec

from holdfast.errors import Forbidden, StoreError
from holdfast.storage.disk import Disk, Node
from holdfast.storage.files.tree import let_go, reading

if TYPE_CHECKING:
    from holdfast.storage.files.archive import Archive

_NO_FILES = (S_IFDIR, S_IFLNK)
LOG_NAME = "events.jsonl"
ARCHIVE_NAME = "events.jsonl.zst"
OWN_NAME = "own.jsonl"
BASE_NAME = "base.json"
PARTS_MAX = 16  # the maximum number of files that a branch inherits; one that would need more is copied
_BASE_BYTES_MAX = 4096
# Only another process that keeps rewriting the log could make a reader retry this often.
_LOOKS_MAX = 100
# Small enough to stay in the processor's cache while it is verified and decoded, and to leave no hole in memory that
# the decoded values do not fill.
_READ_BYTES = 1 << 16


class Base(msgspec.Struct):
    """``base.json``: how many bytes of each inherited file belong to the log."""

    bytes: list[int]


class Part(msgspec.Struct, frozen=True):
    """A part of a log: ``size`` bytes of a file; the last one as far as it goes."""

    name: str
    size: int
    is_last: bool


class Look(msgspec.Struct, frozen=True):
    """The files of a log, as they were found.

    ``node`` is the file that identifies this state of the log; ``parts`` are in order, with
    only the last one growing. Of an archive ``size`` is that of the file.
    """

    node: Node
    parts: list[Part]
    size: int
    is_archived: bool = False
    is_branch: bool = False
    mark: int = 0
    missing: int = 0  # bytes that a branch should have inherited and that are missing

    @property
    def is_plain(self) -> bool:
        """True if the whole log is in ``events.jsonl``."""
        return not (self.is_archived or self.is_branch)

    @property
    def inherited(self) -> int:
        """The number of bytes before the key's own."""
        return sum(part.size for part in self.parts if not part.is_last)


def base_part_name(number: int) -> str:
    """Return the name of an inherited file, counted from 1."""
    return "base.jsonl" if number == 1 else f"base.{number}.jsonl"


def look(disk: Disk, directory: int) -> Look | None:
    """Return the files of a log in a directory; None if it has none. Forbidden for a symlink."""
    for _ in range(_LOOKS_MAX):
        node = disk.node_at(LOG_NAME, directory)
        if node is not None:
            if S_IFMT(node.mode) in _NO_FILES:
                raise _not_a_file(LOG_NAME)
            part = Part(LOG_NAME, node.size, is_last=True)
            return Look(node, [part], node.size, mark=node.inode)
        node = _file(disk, directory, ARCHIVE_NAME)
        if node is not None:
            part = Part(ARCHIVE_NAME, node.size, is_last=True)
            return Look(node, [part], node.size, is_archived=True, mark=node.inode)
        found = _look_at_branch(disk, directory)
        # It may have become plain or archived meanwhile, and its files be gone.
        if _is_still_branch(disk, directory):
            return found
    raise _restless()


def open_parts(disk: Disk, directory: int, start: int = 0) -> OpenLog | None:
    """Open the files of a log from an offset on, all of the same moment; a negative offset counts from the end."""
    for _ in range(_LOOKS_MAX):
        found = look(disk, directory)
        if found is None:
            return None
        opened = OpenLog(disk, found, directory, start if start >= 0 else found.size + start)
        if opened.is_whole:
            return opened
        opened.close()
    raise _restless()


def log_size(disk: Disk, directory: int) -> int:
    """Return how many bytes a log has. Raises TooLarge for an archive that claims absurdly many."""
    found = look(disk, directory)
    if found is None or not found.is_archived:
        return 0 if found is None else found.size
    opened = open_parts(disk, directory)
    if opened is None:
        return 0
    with opened:
        return opened.size()


class OpenLog:
    """The files of a log, open for reading. Closed by ``with``."""

    def __init__(self, disk: Disk, found: Look, directory: int, start: int) -> None:
        self.found = found
        self.files: list[tuple[Part, int]] = []  # the parts after ``start``, each with a descriptor
        self._disk = disk
        self.is_whole = False  # whether the log kept its form while its files were opened
        offset = 0
        try:
            for part in found.parts:
                offset += part.size
                if part.is_last or offset > start:
                    self.files.append((part, disk.open_read(part.name, directory)))
            self.is_whole = not found.is_branch or _is_still_branch(disk, directory)
        except FileNotFoundError:
            return
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def archive(self) -> Archive | None:
        """Return the archive, if the log is archived."""
        if not self.found.is_archived:
            return None
        return open_archive(self._disk, self.files[0][1])

    def size(self) -> int:
        """Return the size of the log. Raises TooLarge for an archive that claims absurdly many bytes."""
        archive = self.archive()
        if archive is None:
            return self.found.size
        archive.check()
        return archive.size

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes from an offset on, and what is added to the last file meanwhile."""
        if self.found.is_archived:
            return open_archive(self._disk, self.files[0][1]).read(start)
        if self.found.is_branch:
            return self._read_branch(start)
        return read_file_part(self._disk, self.files[0][1], start, None)

    def _read_branch(self, start: int) -> Iterator[bytes]:
        offset = self.found.size - sum(part.size for part, _ in self.files)
        for part, descriptor in self.files:
            stop = None if part.is_last else part.size
            yield from read_file_part(self._disk, descriptor, max(0, start - offset), stop)
            offset += part.size

    def damage(self) -> str:
        """Return what is wrong with the files, as a sentence; empty if nothing is. Reads an archive."""
        archive = self.archive()
        if archive is not None:
            for _ in archive.read():
                pass
            return "The archive is damaged." if archive.damaged else ""
        if self.found.missing:
            return f"{self.found.missing:,} bytes are missing of what the branch began with."
        return ""

    def sync(self) -> None:
        for _, descriptor in self.files:
            self._disk.sync(descriptor)

    def close(self) -> None:
        while self.files:
            let_go(self._disk, self.files.pop()[1])


def open_archive(disk: Disk, descriptor: int) -> Archive:
    """Return an archive that is read through a descriptor, while that is open."""
    from holdfast.storage.files.archive import Archive

    size = disk.node(descriptor).size
    return Archive(lambda count, offset: disk.read_at(descriptor, count, offset), size)


def _restless() -> StoreError:
    return StoreError("the log changes its form faster than it can be read")


def _file(disk: Disk, directory: int, name: str) -> Node | None:
    node = disk.node_at(name, directory)
    if node is not None and S_IFMT(node.mode) in _NO_FILES:
        raise _not_a_file(name)
    return node


def _not_a_file(name: str) -> Forbidden:
    return Forbidden(f"{name} is not a file of the store")


def _look_at_branch(disk: Disk, directory: int) -> Look | None:
    node = _file(disk, directory, BASE_NAME)
    base = None if node is None else _read_base(disk, directory)
    if node is None or base is None:
        return None
    parts, missing = [], 0
    for number, size in enumerate(base.bytes, 1):
        name = base_part_name(number)
        file = _file(disk, directory, name)
        # What is missing of it, by some accident, is missing in the log too: that is damage.
        there = 0 if file is None else min(size, file.size)
        missing += max(0, size - there)
        if there > 0:
            parts.append(Part(name, there, is_last=False))
    own = _file(disk, directory, OWN_NAME)
    if own is not None:
        parts.append(Part(OWN_NAME, own.size, is_last=True))
    size = sum(part.size for part in parts)
    return Look(own or node, parts, size, is_branch=True, mark=node.inode, missing=missing)


def _is_still_branch(disk: Disk, directory: int) -> bool:
    return disk.node_at(LOG_NAME, directory) is None and disk.node_at(ARCHIVE_NAME, directory) is None


def _read_base(disk: Disk, directory: int) -> Base | None:
    """Return ``base.json``; an empty one if it is not readable."""
    try:
        with reading(disk, BASE_NAME, directory) as descriptor:
            return msgspec.json.decode(disk.read_at(descriptor, _BASE_BYTES_MAX, 0), type=Base)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        return Base([])


def read_file_part(disk: Disk, descriptor: int, start: int, stop: int | None) -> Iterator[bytes]:
    """Yield the bytes of a file between two offsets, or to its end, in chunks.

    At the end of the file, a line comes from one read: after half a line, the next read may return
    the middle of another one, if a writer has cut it off and continued.
    """
    while stop is None or start < stop:
        wanted = _READ_BYTES if stop is None else min(_READ_BYTES, stop - start)
        chunk = disk.read_at(descriptor, wanted, start)
        if not chunk:
            return
        if stop is None and not chunk.endswith(b"\n"):
            whole = chunk.rfind(b"\n") + 1
            if whole:
                chunk = chunk[:whole]
            elif len(chunk) < wanted:
                if disk.read_at(descriptor, wanted, start) != chunk:
                    continue  # it changes: try again
                yield chunk
                return
        yield chunk
        start += len(chunk)
