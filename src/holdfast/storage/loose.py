"""A log outside of any store, as a person names it: read, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import NotFound, UsageError
from holdfast.storage._file_documents import FileDocuments
from holdfast.storage._file_parts import LOG_NAME
from holdfast.storage._tree import Tree, translation
from holdfast.storage.base import CHUNK_BYTES, Documents
from holdfast.storage.disk import Disk

__all__ = ["documents_beside", "find_log", "read_file"]


def find_log(path: str | os.PathLike[str]) -> str:
    """The real path of a log: the file itself, or the ``events.jsonl`` of a folder.

    Raises NotFound if there is none. Symlinks are resolved here, once: the path is the caller's
    own choice, and what it leads to is then opened without following any.
    """
    text = os.fspath(path)
    if not text or "\0" in text:
        raise UsageError("a log needs the path of a file or folder")
    found = os.path.realpath(text)
    if os.path.isdir(found):
        found = os.path.join(found, LOG_NAME)
    if not os.path.lexists(found):
        raise NotFound(f"there is no log at {text}", path=text)
    if not os.path.isfile(found):
        raise UsageError(f"{text} is not a plain file", path=text)
    return found


def read_file(path: str, disk: Disk | None = None) -> Iterator[bytes]:
    """The bytes that a file has now, in chunks. Raises StoreError if it cannot be read."""
    disk = disk or Disk()
    with translation(f"reading {path}"), _opened(path, disk) as descriptor:
        offset, end = 0, disk.node(descriptor).size
        while offset < end:
            chunk = disk.read_at(descriptor, min(CHUNK_BYTES, end - offset), offset)
            if not chunk:
                return
            yield chunk
            offset += len(chunk)


def documents_beside(path: str, disk: Disk | None = None) -> Documents:
    """The documents in a log's folder, such as the payloads of a copied session. For reading."""
    return FileDocuments(Tree(os.path.dirname(path), disk or Disk()), ())


@contextmanager
def _opened(path: str, disk: Disk) -> Iterator[int]:
    """A descriptor of the file, reached level by level."""
    *above, name = [part for part in path.split("/") if part]
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
        yield descriptor
    finally:
        disk.close(descriptor)
