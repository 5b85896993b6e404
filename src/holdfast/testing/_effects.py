"""What a call did to a disk, as far as a crash may undo it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Write(NamedTuple):
    """Bytes written into a file."""

    inode: int
    offset: int
    data: bytes

    def on(self, content: bytes, size: int | None = None) -> bytes:
        """The content after the write, or after only the first ``size`` bytes of it."""
        data = self.data if size is None else self.data[:size]
        if not data:
            return content
        if self.offset == len(content):
            return content + data
        before = content[: self.offset].ljust(self.offset, b"\0")
        return before + data + content[self.offset + len(data) :]


class Cut(NamedTuple):
    """A file set to another size."""

    inode: int
    size: int

    def on(self, content: bytes, size: int | None = None) -> bytes:
        """The content after the cut."""
        return content[: self.size].ljust(self.size, b"\0")


class Sync(NamedTuple):
    """A file's bytes are on the medium."""

    inode: int


class SyncDirectory(NamedTuple):
    """A directory's entries are on the medium."""

    inode: int


class EntryChange(NamedTuple):
    """Names taken away and given, all at once: a creation, a link, a rename, an unlink."""

    removed: tuple[int, str] | None
    added: tuple[int, str, int] | None
    is_directory: bool = False

    @property
    def directory(self) -> int:
        """The directory whose sync makes it last; of a rename, the one that has the new name."""
        if self.added is not None:
            return self.added[0]
        assert self.removed is not None
        return self.removed[0]


class Acknowledged(NamedTuple):
    """Not a call: here the program under test told someone that something is safe."""

    what: Any
    survives_power_loss: bool


DataChange = Write | Cut
Effect = Write | Cut | Sync | SyncDirectory | EntryChange | Acknowledged


class Image(NamedTuple):
    """All that is on a disk: the entries of each directory and the bytes of each file, by inode."""

    entries: dict[int, dict[str, int]]
    contents: dict[int, bytes]
