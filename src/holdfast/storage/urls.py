"""Opening a store by URL or path."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, UsageError
from holdfast.storage.base import Store
from holdfast.storage.disk import Disk
from holdfast.storage.files.store import FileStore
from holdfast.storage.files.tree import Tree, is_path, real_path, translation

if TYPE_CHECKING:
    from holdfast.storage.memory import MemoryStore

ENTRY_POINTS = "holdfast.stores"
"""The group in which packages register stores: the scheme of an address, and a function that opens it."""

_named_memory: dict[str, MemoryStore] = {}


def open_store(where: str | os.PathLike[str]) -> Store:
    """Return the store at a URL or at a plain path, which is a directory of files.

    URLs are ``none:``, ``memory:``, ``file:///path``, ``sqlite:///file``, ``postgresql://…`` and
    ``s3://bucket/prefix`` (``gs://``, ``az://``); installed packages may add others.

    ``memory:`` is a new store each time, ``memory:name`` the same one within the process.
    Raises UsageError for a URL that no backend serves.
    """
    if not isinstance(where, (str, os.PathLike)):
        raise UsageError(
            f"a store is a path or an address, not {type(where).__name__}",
            remedy="An object that saves and loads, or appends and reads, becomes a store by"
            " holdfast.compat.DocumentStore or EventStore.",
        )
    text = os.fspath(where)
    if is_path(text):
        return FileStore(os.path.expanduser(text))
    scheme, _, rest = text.partition(":")
    if scheme == "none":
        from holdfast.storage.memory import NoStore

        return NoStore()
    if scheme == "memory":
        from holdfast.storage.memory import MemoryStore

        return _named_memory.setdefault(rest, MemoryStore()) if rest else MemoryStore()
    if scheme == "sqlite":
        from holdfast.storage.sqlite.store import SQLiteStore

        return SQLiteStore(_file_path(text))
    if scheme in ("postgresql", "postgres"):
        from holdfast.storage.postgres.store import PostgresStore

        return PostgresStore(text)
    if scheme in ("s3", "gs", "az"):
        from holdfast.storage.s3.store import ObjectStore

        return ObjectStore(text)
    if scheme == "file":
        return FileStore(_file_path(text))
    return _installed(scheme, text)


def _installed(scheme: str, url: str) -> Store:
    """Return a store of another package, registered by an entry point."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        if point.name == scheme:
            store = point.load()(url)
            if not isinstance(store, Store):
                raise UsageError(f"what is installed for {scheme!r} addresses is not a Store")
            return store
    raise UsageError(
        f"no store serves {scheme!r} addresses",
        remedy="Use none:, memory:, file:///path, sqlite:///file, postgresql://host/db,"
        " s3://bucket/prefix or the path of a directory; others are installed as packages.",
    )


def shown_url(url: str) -> str:
    """Return an address as people may see it: without a password, and without its options."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    place = rest.partition("?")[0]
    if scheme in ("file", "sqlite"):
        return f"{scheme}://{place}"
    # The last of them: a password with an unescaped slash or another @ is hidden as well.
    user, at, machine = place.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{machine}"


def local_path(where: str) -> str | None:
    """Return the path of a store that is a directory or a file of this machine; None for another. Raises UsageError."""
    if is_path(where):
        return os.path.expanduser(where)
    return _file_path(where) if where.partition(":")[0] in ("file", "sqlite") else None


def _file_path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{url} names another host; such a store is on this one")
    if not parts.path.startswith("/"):
        raise UsageError(f"{url} is not absolute; write {parts.scheme}:///path")
    return unquote(parts.path)


# The place for a catalogue of a store on another machine: in the user's cache directory.
def cache_place(address: str) -> str | None:
    """Return the path of a file for this address, in a private directory; None if there can be none.

    It does not reveal the address, which may contain a password.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        folder = real_path(os.path.join(home, "holdfast"))
        with translation(f"making {folder}"), closing(Tree(folder, Disk())) as tree:
            tree.root(create=True)
    except HoldfastError:
        return None
    from hashlib import sha256  # a store of files needs none

    return os.path.join(folder, f"{sha256(address.encode()).hexdigest()[:32]}.db")
