"""A log outside of any store, as a person names it: read, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import NotFound, UsageError
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._file_parts import (
    ARCHIVE_NAME,
    BASE_NAME,
    LOG_NAME,
    open_archive,
    open_parts,
    read_file_part,
)
from holdfast.storage._tree import Tree, let_go, translation
from holdfast.storage.base import Documents
from holdfast.storage.disk import Disk

__all__ = ["documents_beside", "find_log", "read_file"]


def find_log(path: str | os.PathLike[str]) -> str:
    """The real path of a log: the file itself, or the ``events.jsonl`` of a folder.

    A folder may have ``events.jsonl.zst`` instead, or be a branch: that one is named by its
    ``base.json``. Raises NotFound if there is none. Symlinks are resolved here, once: the path is
    the caller's own choice, and what it leads to is then opened without following any.
    """
    text = os.fspath(path)
    if not text or "\0" in text:
        raise UsageError("a log needs the path of a file or folder")
    found = os.path.realpath(text)
    if os.path.isdir(found):
        names = (LOG_NAME, ARCHIVE_NAME, BASE_NAME)
        paths = [os.path.join(found, name) for name in names]
        found = next((path for path in paths if os.path.lexists(path)), paths[0])
    if not os.path.lexists(found):
        raise NotFound(f"there is no log at {text}", path=text)
    if not os.path.isfile(found):
        raise UsageError(f"{text} is not a plain file", path=text)
    return found


def read_file(path: str, disk: Disk | None = None) -> Iterator[bytes]:
    """The bytes that a log has now, in chunks, by the path that ``find_log`` gave.

    Raises StoreError if it cannot be read, and TooLarge for an archive that claims too much.
    """
    disk = disk or Disk()
    above, name = os.path.split(path)
    with translation(f"reading {path}"), _opened(above, disk) as directory:
        if name == BASE_NAME:
            branch = open_parts(disk, directory)
            if branch is not None and branch.found.is_branch:
                with branch:
                    yield from branch.read()
                return
            if branch is not None:
                branch.close()
        descriptor = disk.open_read(name, directory)
        try:
            if name.endswith(".jsonl.zst"):
                yield from open_archive(disk, descriptor).read()
            else:
                yield from read_file_part(disk, descriptor, 0, disk.node(descriptor).size)
        finally:
            let_go(disk, descriptor)


def documents_beside(path: str, disk: Disk | None = None) -> Documents:
    """The documents in a log's folder, such as the payloads of a copied session. For reading."""
    return FileDocuments(Tree(os.path.dirname(path), disk or Disk()), ())


@contextmanager
def _opened(path: str, disk: Disk) -> Iterator[int]:
    """A descriptor of a directory, reached level by level."""
    directory = disk.open_root()
    for part in filter(None, path.split("/")):
        try:
            below = disk.open_passage(part, directory)
        finally:
            disk.close(directory)
        directory = below
    try:
        yield directory
    finally:
        disk.close(directory)
