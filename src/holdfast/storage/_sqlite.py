"""The one door to SQLite: nothing else imports it.

A file that is reached through here is private (0600), is no symlink, lies in a directory that only
its owner can write to, and is a cache: it is never synced and may be removed at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import Unavailable

if TYPE_CHECKING:
    import sqlite3

    from holdfast.storage._tree import Tree

__all__ = ["connect", "discard", "file_mark", "is_busy", "sqlite_errors", "sqlite_version"]

_WAIT_S = 0.5
_PAGES_BYTES = 8 << 20
_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=OFF",
    "PRAGMA temp_store=MEMORY",
    f"PRAGMA cache_size=-{_PAGES_BYTES >> 10}",
    "PRAGMA journal_size_limit=16777216",
    # A damaged page is then told as an error rather than as rows that are not there.
    "PRAGMA cell_size_check=ON",
    "PRAGMA trusted_schema=OFF",
)
_BESIDE = ("", "-wal", "-shm", "-journal")


def sqlite_version() -> str | None:
    """The version of the SQLite library that Python brings; None if this Python has none."""
    try:
        import sqlite3
    except ImportError:
        return None
    return sqlite3.sqlite_version


def sqlite_errors() -> tuple[type[Exception], ...]:
    """What goes wrong with a database; nothing where there is no SQLite."""
    try:
        import sqlite3
    except ImportError:
        return ()
    return (sqlite3.Error,)


def connect(path: str | None, *, wait_s: float = _WAIT_S) -> sqlite3.Connection:
    """A connection to a file, made if there is none, or to a database in memory for None.

    Statements commit by themselves unless a transaction was begun; any thread may use it, one at a
    time. Raises Unavailable without SQLite or without a directory that can be written to,
    Forbidden for a symlink or a directory that others can write to, and SQLite's own errors for
    what is wrong with the file.
    """
    try:
        import sqlite3
    except ImportError as error:
        raise Unavailable("this Python comes without SQLite") from error
    if path is not None:
        _make_private(path)
    connection = sqlite3.connect(
        ":memory:" if path is None else path,
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def is_busy(error: Exception) -> bool:
    """Whether an error says that another one is at the file, and not that something is wrong."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED


def file_mark(path: str) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def discard(path: str) -> None:
    """Remove a database with what SQLite keeps beside it. What cannot be removed stays."""
    from holdfast.storage.disk import Disk

    name = os.path.basename(path)
    with _directory(path) as (_, directory):
        for suffix in _BESIDE:
            with contextlib.suppress(OSError):
                Disk().unlink(name + suffix, directory)


def _make_private(path: str) -> None:
    """See to it that the file is there, is a file, and is nobody else's to read."""
    from holdfast.storage._tree import let_go, translation

    with translation(f"opening {path}"), _directory(path) as (tree, directory):
        let_go(tree.disk, tree.disk.open_lock(os.path.basename(path), directory))


@contextmanager
def _directory(path: str) -> Iterator[tuple[Tree, int]]:
    """The directory of a file, reached without following a symlink."""
    from holdfast.storage._tree import Tree
    from holdfast.storage.disk import Disk

    tree = Tree(os.path.dirname(path), Disk())
    try:
        with tree.opened(()) as directory:
            if directory is None:
                raise Unavailable(f"there is no directory {os.path.dirname(path)}")
            yield tree, directory
    finally:
        tree.close()
