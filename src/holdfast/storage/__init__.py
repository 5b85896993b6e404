"""Bytes: logs, documents and leases, on files, in memory, or nowhere."""

from __future__ import annotations

from holdfast.storage.base import (
    MUST_NOT_EXIST,
    Capabilities,
    Documents,
    Entry,
    Lease,
    Log,
    Store,
)
from holdfast.storage.disk import Disk, forks
from holdfast.storage.files import FileStore
from holdfast.storage.loose import documents_beside, find_log, read_file
from holdfast.storage.memory import MemoryStore
from holdfast.storage.none import NoStore
from holdfast.storage.urls import open_store

__all__ = [
    "MUST_NOT_EXIST",
    "Capabilities",
    "Disk",
    "Documents",
    "Entry",
    "FileStore",
    "Lease",
    "Log",
    "MemoryStore",
    "NoStore",
    "Store",
    "documents_beside",
    "find_log",
    "forks",
    "open_store",
    "read_file",
]
