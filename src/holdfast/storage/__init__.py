"""Bytes: logs, documents and leases, on files, in memory, or nowhere."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from holdfast.storage.files import FileStore
from holdfast.storage.urls import open_store, shown_url

if TYPE_CHECKING:
    from holdfast.storage._sqlite_foreign import ForeignDatabase, copy_database
    from holdfast.storage.listening import PrivateSocket
    from holdfast.storage.loose import documents_beside, find_log, read_file
    from holdfast.storage.memory import MemoryStore
    from holdfast.storage.none import NoStore
    from holdfast.storage.outside import Outside, look_outside
    from holdfast.storage.placing import place_file
    from holdfast.storage.space import SpaceStore, check_space

# Loaded when first asked for: most programs keep their sessions in files.
_LAZY = {
    "ForeignDatabase": "_sqlite_foreign",
    "MemoryStore": "memory",
    "NoStore": "none",
    "Outside": "outside",
    "PrivateSocket": "listening",
    "SpaceStore": "space",
    "check_space": "space",
    "copy_database": "_sqlite_foreign",
    "documents_beside": "loose",
    "find_log": "loose",
    "place_file": "placing",
    "look_outside": "outside",
    "read_file": "loose",
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
