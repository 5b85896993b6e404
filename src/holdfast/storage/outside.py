"""Files and folders outside of any store, as a person names them: read, and nothing else.

Inside of a folder no symlink is followed, and nothing is opened that is no plain file: such a tree
may come from anywhere. What was passed over is told.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from holdfast.errors import Forbidden, NotFound, TooLarge, UsageError
from holdfast.storage._tree import translation
from holdfast.storage.disk import Disk

__all__ = ["Outside", "OutsideFile", "look_outside"]

_NS_PER_MS = 1_000_000
_FILES_MAX = 20_000
_LEVELS_MAX = 12


class OutsideFile:
    """A plain file that is read when it is asked for."""

    def __init__(self, root: str, name: str, found: os.stat_result, disk: Disk) -> None:
        self._root = root
        self._name = name
        self._disk = disk
        self.size = found.st_size
        self.modified = found.st_mtime_ns // _NS_PER_MS

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """The bytes that the file has now, piece by piece. Raises StoreError if it cannot be read.

        The way to it is walked anew, without following a symlink that was put there meanwhile.
        """
        with translation(f"reading {self._name}"), self._opened() as descriptor:
            offset = 0
            while chunk := self._disk.read_at(descriptor, chunk_bytes, offset):
                yield chunk
                offset += len(chunk)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        disk = self._disk
        *above, name = [part for part in f"{self._root}/{self._name}".split("/") if part]
        current = disk.open_root()
        try:
            for part in above:
                below = disk.open_passage(part, current)
                disk.close(current)
                current = below
            descriptor = disk.open_read(name, current)
        finally:
            disk.close(current)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Forbidden(f"{self._name} is not a plain file any more")
            yield descriptor
        finally:
            disk.close(descriptor)


class Outside:
    """What lies at a path: one file, or a folder with the files below it."""

    def __init__(self, path: str, *, disk: Disk | None = None) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.folder = os.path.basename(os.path.dirname(path))
        self.is_file = False
        self.files: dict[str, OutsideFile] = {}
        self.passed_over: list[str] = []
        """What was not looked at, in words."""
        self._disk = disk or Disk()

    def beside(self, name: str) -> OutsideFile | None:
        """A plain file in the same folder as this one; None if there is none."""
        if "/" in name or not self.is_file:
            return None
        folder = os.path.dirname(self.path)
        return self._plain(folder, name)

    def look(self, files_max: int, levels_max: int) -> None:
        """Find what is there."""
        found = os.stat(self.path)
        if stat.S_ISREG(found.st_mode):
            self.is_file = True
            self.files[self.name] = OutsideFile(
                os.path.dirname(self.path), self.name, found, self._disk
            )
        elif stat.S_ISDIR(found.st_mode):
            self._look_below("", files_max, levels_max)
        else:
            raise UsageError(
                f"{self.path} is neither a plain file nor a folder",
                remedy="Give a file or a folder; pipes and devices are not read.",
                path=self.path,
            )

    def _look_below(self, folder: str, files_max: int, levels: int) -> None:
        place = os.path.join(self.path, folder) if folder else self.path
        try:
            with os.scandir(place) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.passed_over.append(f"{folder or self.name}: {error.strerror}")
            return
        for entry in names:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if levels > 1:
                    self._look_below(name, files_max, levels - 1)
                else:
                    self.passed_over.append(f"{name}: too many folders within folders")
            else:
                self._take(entry, name)
            if len(self.files) > files_max:
                raise TooLarge(
                    f"{self.path} holds more than {files_max:,} files",
                    remedy="Name the folder of one tool, or one file.",
                    path=self.path,
                )

    def _take(self, entry: os.DirEntry[str], name: str) -> None:
        if entry.is_symlink():
            self.passed_over.append(f"{name}: a symlink is not followed")
            return
        file = self._plain(self.path, name)
        if file is None:
            self.passed_over.append(f"{name}: not a plain file")
        else:
            self.files[name] = file

    def _plain(self, root: str, name: str) -> OutsideFile | None:
        try:
            found = os.stat(os.path.join(root, name), follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return OutsideFile(root, name, found, self._disk) if stat.S_ISREG(found.st_mode) else None


def look_outside(
    path: str | os.PathLike[str],
    *,
    files_max: int = _FILES_MAX,
    levels_max: int = _LEVELS_MAX,
    disk: Disk | None = None,
) -> Outside:
    """What lies at a path. Symlinks in the path itself are the caller's own choice and resolved.

    Raises NotFound if there is nothing, UsageError for a device or a pipe, TooLarge for a folder
    of too many files.
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError("an import needs the path of a file or folder")
    real = os.path.realpath(os.path.expanduser(text))
    if not os.path.exists(real):
        raise NotFound(f"there is nothing at {text}", remedy="Check the path.", path=text)
    found = Outside(real, disk=disk)
    with translation(f"reading {text}"):
        found.look(files_max, levels_max)
    return found
