"""Bytes: logs, documents and leases, on files, in memory, or nowhere."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.storage._pieces import zstd_module
    from holdfast.storage._worker import Worker, do_each, new_outcome
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
        check_clash,
        check_key,
        check_made,
        etag_of,
    )
    from holdfast.storage.disk import Disk, Node, forks, is_at_work, open_nowhere, widen_pipe
    from holdfast.storage.files.store import FileStore
    from holdfast.storage.files.tree import is_path
    from holdfast.storage.memory import MemoryDocuments, MemoryLog, MemoryStore, NoStore
    from holdfast.storage.outside import (
        Folder,
        Outside,
        PrivateSocket,
        add_to_file,
        documents_beside,
        find_log,
        look_outside,
        place_file,
        read_file,
    )
    from holdfast.storage.space import SpaceStore, check_space
    from holdfast.storage.sqlite.foreign import ForeignDatabase, copy_database
    from holdfast.storage.urls import local_path, open_store, shown_url

# Loaded when first asked for: most programs keep their sessions in files.
__getattr__ = lazy(
    __name__,
    {
        "_pieces": "zstd_module",
        "_worker": "Worker do_each new_outcome",
        "base": (
            "MUST_NOT_EXIST Capabilities Changes Documents Entry Lease Log Pieces Stamp Store"
            " check_clash check_key check_made etag_of"
        ),
        "disk": "Disk Node forks is_at_work open_nowhere widen_pipe",
        "files.store": "FileStore",
        "files.tree": "is_path",
        "memory": "MemoryDocuments MemoryLog MemoryStore NoStore",
        "outside": (
            "Folder Outside add_to_file documents_beside find_log look_outside place_file read_file PrivateSocket"
        ),
        "space": "SpaceStore check_space",
        "sqlite.foreign": "ForeignDatabase copy_database",
        "urls": "local_path open_store shown_url",
    },
)

__all__ = ["MUST_NOT_EXIST", "Capabilities", "Changes", "Documents", "Entry", "Lease", "Log", "Pieces", "Stamp"]
__all__ += [
    "Store",
    "check_clash",
    "check_key",
    "check_made",
    "check_space",
    "etag_of",
    "is_path",
    "local_path",
    "open_store",
]
__all__ += ["FileStore", "MemoryDocuments", "MemoryLog", "MemoryStore", "NoStore", "SpaceStore", "shown_url"]
__all__ += ["Disk", "Node", "Worker", "do_each", "forks", "is_at_work", "new_outcome", "open_nowhere", "widen_pipe"]
__all__ += ["zstd_module"]
__all__ += ["Folder", "ForeignDatabase", "Outside", "PrivateSocket", "copy_database"]
__all__ += ["add_to_file", "documents_beside", "find_log", "look_outside", "place_file", "read_file"]
