"""A file outside of any store, where a person wants it: whole or not at all, or line by line."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

from holdfast.errors import NotFound, UsageError
from holdfast.storage._tree import let_go, translation
from holdfast.storage.disk import Disk

__all__ = ["add_to_file", "place_file"]

# What file systems without hard links say.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class _Mode(NamedTuple):
    """How a file is put in its place."""

    overwrite: bool
    for_all: bool


def place_file(
    path: str | os.PathLike[str],
    chunks: Iterable[bytes],
    *,
    overwrite: bool = False,
    make_folders: bool = False,
    for_all: bool = False,
    disk: Disk | None = None,
) -> str:
    """Write ``chunks`` to a file of mode 0600, or 0644 ``for_all``; the real path of it.

    A crash or an error leaves what was there before, never a part. On the medium when it returns.
    Raises UsageError if the file is there already and is not to be replaced, NotFound if its folder
    is missing and not to be made, StoreError if the medium refuses.
    """
    text = os.fspath(path)
    if not text or "\0" in text or text.endswith("/"):
        raise UsageError("an export needs the path of a file")
    folder = os.path.realpath(os.path.dirname(text) or ".")
    name = os.path.basename(text)
    disk = disk or Disk()
    with translation(f"writing {text}"):
        directory = _open_folder(folder, disk, make=make_folders)
        try:
            mode = _Mode(overwrite=overwrite, for_all=for_all)
            _place(name, directory, chunks, disk, mode, shown=text)
        finally:
            let_go(disk, directory)
    return os.path.join(folder, name)


def add_to_file(path: str | os.PathLike[str], data: bytes, *, disk: Disk | None = None) -> None:
    """Write ``data`` at the end of a file of mode 0600, which is made if it is missing.

    It is opened anew each time: whoever moves it away in between gets a new one. Nothing is synced.
    Raises UsageError for what can be no file, NotFound if its folder is missing, StoreError if the
    medium refuses.
    """
    text = os.fspath(path)
    if not text or "\0" in text or text.endswith("/"):
        raise UsageError("there is no file to write to", path=text)
    disk = disk or Disk()
    with translation(f"writing {text}"):
        directory = _open_folder(os.path.realpath(os.path.dirname(text) or "."), disk, make=False)
        try:
            descriptor = disk.open_log(os.path.basename(text), directory, create=True)
            try:
                _write_all(descriptor, data, disk)
            finally:
                let_go(disk, descriptor)
        finally:
            let_go(disk, directory)


def _open_folder(folder: str, disk: Disk, *, make: bool) -> int:
    parts = [part for part in folder.split("/") if part] or ["."]
    current = disk.open_root()
    for number, part in enumerate(parts, 1):
        enter = disk.open_passage if number < len(parts) else disk.open_directory
        try:
            below = _enter(part, current, disk, enter, make=make)
        except FileNotFoundError:
            raise NotFound(
                f"there is no folder {folder}", remedy="Make it first, or choose another place."
            ) from None
        finally:
            let_go(disk, current)
        current = below
    return current


def _enter(
    part: str, parent: int, disk: Disk, enter: Callable[[str, int], int], *, make: bool
) -> int:
    try:
        return enter(part, parent)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        disk.make_directory(part, parent)
    return enter(part, parent)


def _place(
    name: str, directory: int, chunks: Iterable[bytes], disk: Disk, mode: _Mode, *, shown: str
) -> None:
    node = disk.node_at(name, directory)
    if node is not None and (not mode.overwrite or node.is_directory):
        raise _is_there(shown)
    temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
    descriptor = disk.open_new(temporary, directory)
    try:
        try:
            for chunk in chunks:
                _write_all(descriptor, chunk, disk)
            if mode.for_all:
                disk.show_to_all(descriptor)
            disk.sync(descriptor)
        finally:
            let_go(disk, descriptor)
        if mode.overwrite or not _linked(temporary, name, directory, disk):
            disk.rename(temporary, directory, name, directory)
    except FileExistsError:
        raise _is_there(shown) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(temporary, directory)
    disk.sync_directory(directory)


def _linked(temporary: str, name: str, directory: int, disk: Disk) -> bool:
    """Give the file its name, unless another has it; False where there are no second names."""
    try:
        disk.link(temporary, directory, name, directory)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if disk.node_at(name, directory) is not None:
            raise FileExistsError from error
        return False
    return True


def _write_all(descriptor: int, data: bytes, disk: Disk) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]


def _is_there(path: str) -> UsageError:
    return UsageError(
        f"there is something at {path} already", remedy="Choose another name, or ask to overwrite."
    )
