"""A directory that may be looked at and not changed, for tools that read files.

Nothing outside of it can be reached: every step of a path is taken by descriptor, without symlinks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.errors import Forbidden, NotFound, TooLarge, UsageError
from holdfast.storage.disk import Disk

__all__ = ["Folder", "FolderEntry"]

_CHUNK_BYTES = 1 << 20


class FolderEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size: int


class Folder:
    """A directory with everything below it. ``root`` may be a symlink; nothing below it may."""

    def __init__(self, root: str, disk: Disk | None = None) -> None:
        self.root = os.path.realpath(root)
        self._disk = disk or Disk()

    def read(self, path: str, bytes_max: int) -> bytes:
        """The bytes of a file. Raises NotFound, Forbidden, and TooLarge above ``bytes_max``."""
        *parents, name = self._parts(path) or [""]
        with self._inside(path, parents) as parent:
            node = self._disk.node_at(name, parent) if name else None
            if node is None:
                raise NotFound(f"there is no file {path}", remedy="List the directory first.")
            if node.is_directory or node.is_symlink:
                kind = "a directory" if node.is_directory else "a symlink, which is not followed"
                raise Forbidden(f"{path} is {kind}", remedy="Name a file.")
            if node.size > bytes_max:
                raise TooLarge(f"{path} has {node.size:,} bytes, more than {bytes_max:,}")
            descriptor = self._disk.open_read(name, parent)
            try:
                return self._read_all(descriptor, bytes_max)
            finally:
                self._disk.close(descriptor)

    def names(self, path: str = ".") -> list[FolderEntry]:
        """What is in a directory, sorted by name."""
        with self._inside(path, self._parts(path)) as directory:
            entries = []
            for name in sorted(self._disk.scan(directory)):
                node = self._disk.node_at(name, directory)
                if node is not None:
                    entries.append(FolderEntry(name, node.is_directory, node.size))
            return entries

    def _parts(self, path: str) -> list[str]:
        if not isinstance(path, str) or "\0" in path:
            raise UsageError("a path is a text without NUL")
        whole = os.path.normpath(os.path.join(self.root, path))
        relative = os.path.relpath(whole, self.root)
        if relative == ".":
            return []
        if relative.split(os.sep)[0] == os.pardir:
            raise Forbidden(
                f"{path} is outside of {self.root}", remedy="Name a path inside the directory."
            )
        return relative.split(os.sep)

    @contextlib.contextmanager
    def _inside(self, path: str, parts: list[str]) -> Iterator[int]:
        """A descriptor of a directory below the root."""
        disk = self._disk
        steps = [part for part in self.root.split(os.sep) if part] + parts
        descriptor = disk.open_root()
        try:
            for number, step in enumerate(steps, 1):
                last = number == len(steps)
                below = (disk.open_directory if last else disk.open_passage)(step, descriptor)
                disk.close(descriptor)
                descriptor = below
            yield descriptor
        except FileNotFoundError as error:
            raise NotFound(f"there is no {path}", remedy="List the directory first.") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Forbidden(f"{path} cannot be read: {reason}") from error
        finally:
            disk.close(descriptor)

    def _read_all(self, descriptor: int, bytes_max: int) -> bytes:
        parts: list[bytes] = []
        offset = 0
        while chunk := self._disk.read_at(descriptor, _CHUNK_BYTES, offset):
            parts.append(chunk)
            offset += len(chunk)
            if offset > bytes_max:
                raise TooLarge(f"the file has more than {bytes_max:,} bytes")
        return b"".join(parts)
