"""The only module that imports SQLite.

What :func:`connect` opens is a cache: private (0600), no symlink, in a directory that only its
owner can write to, never synced, and removable at any time. :func:`connect_file` opens lasting
files, and :func:`connect_memory` no file at all.
"""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import contextmanager
from functools import cache

from holdfast.errors import Damaged, Forbidden, HoldfastError, StoreFull, Unavailable

TYPE_CHECKING = False  # loading `typing` would take longer than this module
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from typing import Any

    Connection = sqlite3.Connection
    Cursor = sqlite3.Cursor

    from holdfast.storage.files.tree import Tree

_WAIT_S = 0.5
_WAIT_TO_WRITE_S = 10
_LOOK_AGAIN_S = 0.005
_WAL_PAGES_MAX = 16_384
# More than it grows to before it is copied into the file: overwriting a log takes half the time of extending it.
_WAL_BYTES_KEPT = 8 << 20
_PAGES_BYTES = 8 << 20
_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=OFF",
    "PRAGMA temp_store=MEMORY",
    f"PRAGMA cache_size=-{_PAGES_BYTES >> 10}",
    "PRAGMA journal_size_limit=16777216",
    # A damaged page is then reported as an error rather than as missing rows.
    "PRAGMA cell_size_check=ON",
    "PRAGMA trusted_schema=OFF",
)
_BESIDE = ("", "-wal", "-shm", "-journal")


def _library() -> Any:
    """Return Python's SQLite module. Raises Unavailable if this Python has none."""
    try:
        import sqlite3
    except ImportError as error:
        raise Unavailable("this Python comes without SQLite") from error
    return sqlite3


@cache
def _kind() -> Any:
    """Return the class of connections that close themselves when collected. Python 3.13 warns of one left open."""
    library = _library()

    class SelfClosing(library.Connection):  # type: ignore[misc, name-defined]  # of a library that is loaded late
        def __del__(self) -> None:
            with contextlib.suppress(library.Error):  # one that was never opened
                self.close()

    return SelfClosing


def _open(place: str, **options: Any) -> Connection:
    connection: Connection = _library().connect(place, factory=_kind(), check_same_thread=False, **options)
    return connection


def sqlite_version() -> str | None:
    """Return the version of Python's SQLite library; None if this Python has none."""
    try:
        return str(_library().sqlite_version)
    except Unavailable:
        return None


def sqlite_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of SQLite; none if there is no SQLite."""
    try:
        return (_library().Error,)
    except Unavailable:
        return ()


def connect(path: str | None, *, wait_s: float = _WAIT_S) -> sqlite3.Connection:
    """Return a connection to a file, created if there is none, or to a database in memory for None.

    Statements commit by themselves unless a transaction was begun; any thread may use it, one at a time. Raises
    Unavailable without SQLite or without a writable directory, Forbidden for a symlink or a directory that others
    can write to, and SQLite's own errors for what is wrong with the file.
    """
    place = ":memory:"
    if path is not None:
        _make_private(path)
        # Escape the characters that are special in an address; SQLite would create a missing file readable for all.
        place = f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode=rw"
    connection = _open(place, uri=path is not None, timeout=wait_s, isolation_level=None, cached_statements=256)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_file(path: str) -> Connection:
    """Open a lasting file, as it is; transactions are the caller's. Raises as :func:`failures` says."""
    with failures("opening", path):
        connection = _open(path, timeout=_WAIT_TO_WRITE_S, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
        except BaseException:
            connection.close()
            raise
        return connection


def use_wal(connection: Connection, path: str) -> None:
    """Make commits wait for no disk; the caller is responsible for syncing the log.

    The caller also has to copy the log into the file now and then (``PRAGMA wal_checkpoint``): left to
    SQLite, a commit would wait for that. Only a log that is far too long is copied anyway.
    """
    with failures("opening", path):
        if _wal_mode(connection) != "wal":
            raise Unavailable(
                f"{path}: SQLite cannot keep a write-ahead log there", remedy="Keep the file on a local disk."
            )
        connection.execute("PRAGMA synchronous=NORMAL")
        # Redacted or erased data must not stay in the pages, however SQLite was built.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES_MAX}")
        connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES_KEPT}")


def _wal_mode(connection: Connection) -> str:
    """Ask for the write-ahead log; return the mode that the file has then."""
    until = time.monotonic() + _WAIT_TO_WRITE_S
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite_errors() as error:
            # When two processes create the file at once, SQLite itself does not wait for the other.
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(_LOOK_AGAIN_S)


@contextmanager
def transaction(connection: Connection, *, to_write: bool = True) -> Iterator[None]:
    """Commit what the block writes, or nothing if it raises; a reading one sees the database of one moment."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")  # of one that was interrupted on its way out
    try:
        # At once: one that began by reading could not wait for its turn to write. Inside, because an interrupt while it
        # waits is raised once it has begun.
        connection.execute("BEGIN IMMEDIATE" if to_write else "BEGIN")
        yield
        if to_write:
            connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def connect_memory() -> Connection:
    """Return an empty database in memory, without any setting."""
    return _open(":memory:")


class failures:  # noqa: N801 - a context manager, which as a generator would take as long as a third of an append
    """Turn errors of SQLite into ours: StoreFull, Unavailable, Forbidden, or Damaged for a broken file."""

    __slots__ = ("_doing",)

    def __init__(self, *doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise our error in place of one of SQLite."""
        if error is not None and isinstance(error, sqlite_errors()):
            raise typed_error(error, " ".join(self._doing)) from error


def typed_error(error: Exception, doing: str) -> HoldfastError:
    """Return our error for one of SQLite."""
    name = getattr(error, "sqlite_errorname", "")
    said = f"{doing}: {error}"
    if name.startswith("SQLITE_FULL"):
        return StoreFull(said)
    if is_busy(error):
        return Unavailable(
            f"{doing}: another process was writing for {_WAIT_TO_WRITE_S} seconds",
            remedy="Try again; if it stays so, look for a program that hangs.",
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return Forbidden(said)
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Damaged(said)
    return Unavailable(said)


def is_busy(error: Exception) -> bool:
    """Return whether an error means that another process is using the file, and not that something is wrong."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED


def file_mark(path: str) -> tuple[int, int] | None:
    """Return what identifies a file among others of the same name; None if there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def discard(path: str) -> None:
    """Remove a database with SQLite's files beside it. What cannot be removed stays."""
    from holdfast.storage.disk import Disk

    name = os.path.basename(path)
    with _directory(path) as (_, directory):
        for suffix in _BESIDE:
            with contextlib.suppress(OSError):
                Disk().unlink(name + suffix, directory)


def _make_private(path: str) -> None:
    """Make sure that the file exists, is a file, and is readable for nobody else."""
    from holdfast.storage.files.tree import let_go, plain_file, translation

    name = os.path.basename(path)
    with translation(f"opening {path}"), _directory(path) as (tree, directory):
        node = plain_file(tree.disk, name, directory, path)
        if node is not None and node.links > 1:
            # It is another file as well, perhaps in a backup: that one stays unchanged.
            tree.disk.unlink(name, directory)
            let_go(tree.disk, tree.disk.open_new(name, directory))
        # An existing file is not opened: closing it again would release the locks that SQLite holds on it in this
        # process.


@contextmanager
def _directory(path: str) -> Iterator[tuple[Tree, int]]:
    """Return the directory of a file, reached without following a symlink."""
    from holdfast.storage.disk import Disk
    from holdfast.storage.files.tree import Tree

    tree = Tree(os.path.dirname(path), Disk())
    try:
        with tree.opened((), doing=f"opening {path}") as directory:
            if directory is None:
                raise Unavailable(f"there is no directory {os.path.dirname(path)}")
            yield tree, directory
    finally:
        tree.close()
