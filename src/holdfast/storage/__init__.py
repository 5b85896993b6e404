"""Bytes: logs, documents and leases, on files, in memory, or nowhere."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast.storage.base import (
        MUST_NOT_EXIST,
        Capabilities,
        Changes,
        Documents,
        Entry,
        Lease,
        Log,
        Pieces,
        Stamp,
        Store,
    )
    from holdfast.storage.disk import Disk, forks
    from holdfast.storage.files.store import FileStore
    from holdfast.storage.memory import MemoryDocuments, MemoryLog, MemoryStore
    from holdfast.storage.none import NoStore
    from holdfast.storage.outside import (
        Outside,
        documents_beside,
        find_log,
        look_outside,
        place_file,
        read_file,
    )
    from holdfast.storage.sockets import PrivateSocket
    from holdfast.storage.space import SpaceStore, check_space
    from holdfast.storage.sqlite.foreign import ForeignDatabase, copy_database
    from holdfast.storage.urls import open_store, shown_url

# Loaded when first asked for: most programs keep their sessions in files.
_LAZY = {
    "Capabilities": "base",
    "Changes": "base",
    "Disk": "disk",
    "Documents": "base",
    "Entry": "base",
    "FileStore": "files.store",
    "ForeignDatabase": "sqlite.foreign",
    "Lease": "base",
    "Log": "base",
    "MUST_NOT_EXIST": "base",
    "MemoryDocuments": "memory",
    "MemoryLog": "memory",
    "MemoryStore": "memory",
    "NoStore": "none",
    "Outside": "outside",
    "Pieces": "base",
    "PrivateSocket": "sockets",
    "SpaceStore": "space",
    "Stamp": "base",
    "Store": "base",
    "check_space": "space",
    "copy_database": "sqlite.foreign",
    "documents_beside": "outside",
    "find_log": "outside",
    "forks": "disk",
    "look_outside": "outside",
    "open_store": "urls",
    "place_file": "outside",
    "read_file": "outside",
    "shown_url": "urls",
}

__all__ = [
    "MUST_NOT_EXIST",
    "Capabilities",
    "Changes",
    "Disk",
    "Documents",
    "Entry",
    "FileStore",
    "ForeignDatabase",
    "Lease",
    "Log",
    "MemoryDocuments",
    "MemoryLog",
    "MemoryStore",
    "NoStore",
    "Outside",
    "Pieces",
    "PrivateSocket",
    "SpaceStore",
    "Stamp",
    "Store",
    "check_space",
    "copy_database",
    "documents_beside",
    "find_log",
    "forks",
    "look_outside",
    "open_store",
    "place_file",
    "read_file",
    "shown_url",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
