"""A database file of our own that several processes write: transactions, reads, and the sync."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import Damaged, Forbidden, HoldfastError, SyncFailed, TooNew, Unavailable
from holdfast.storage.disk import Disk, forks
from holdfast.storage.files.tree import held, let_go, plain_file, real_path, translation, walk
from holdfast.storage.sqlite.connection import connect_file, failures, sqlite_errors, transaction, typed_error, use_wal

if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import Connection

T = TypeVar("T")
_APPLICATION_ID = 0x486F6C64  # "Hold"
_IDENTITY_BYTES = 16
_CHECKPOINT_BYTES = 1 << 20  # a sync that has to extend the log takes a quarter longer
_KEYS_KEPT_MAX = 10_000


class SharedDatabase:
    """One file, created with the first write; one connection for writing, one for reading, for all threads.

    ``schema`` is a list of scripts, each of which brings the tables from one version to the next.
    """

    def __init__(self, path: str, schema: Sequence[str], *, disk: Disk | None = None) -> None:
        self.path = real_path(path)
        self._schema = schema
        self._disk = disk or Disk()
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._copier: Connection | None = None
        # Kept open: the kernel does not report an error to a descriptor that was opened after it.
        self._log: int | None = None
        self._identity = ""
        self._write_lock = threading.RLock()
        self._read_lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._written = 0
        self._last: dict[str, int] = {}
        self._synced = 0
        self._copied_at = 0
        self._entry_synced = False
        self._dead: SyncFailed | None = None
        self._sound: tuple[tuple[int, int | None], list[str]] | None = None
        self._forks = forks.count

    def write(self, work: Callable[[Connection], T], key: str = "") -> T:
        """Return the result of ``work`` with a connection inside a transaction, which is then committed.

        It waits, for a limited time, for another process's transaction. Nothing is written if it raises. A
        sync of ``key`` covers it.
        """
        self._renew_after_fork()
        with self._write_lock, failures("writing", self.path):
            connection = self._to_write()
            with transaction(connection):
                result = work(connection)
            self._note(key)
        return result

    def execute(self, query: str, values: Sequence[Any] = (), key: str = "") -> int:
        """Run one statement as a transaction of its own; return how many rows it changed."""
        if self._forks != forks.count:
            self._renew_after_fork()
        with self._write_lock:
            connection = self._to_write()
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # of one that was interrupted on its way out
                changed = connection.execute(query, values).rowcount
            except sqlite_errors() as error:  # caught here: entering `failures` costs a tenth of a small append
                raise typed_error(error, f"writing {self.path}") from error
            self._note(key)
        return changed

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query; none if there is no file yet."""
        self._renew_after_fork()
        with self._read_lock, failures("reading", self.path):
            if self._reader is None:
                if not os.path.exists(self.path):
                    return []
                self._reader = self._open(create=False)
            rows: list[tuple[Any, ...]] = self._reader.execute(query, values).fetchall()
            return rows

    def sync(self, key: str = "") -> None:
        """Return once everything committed before, for a key or for all, is on the medium.

        Callers that come while a sync is running are served by the next one, all of them together. The
        write-ahead log is synced without SQLite, so that no writer waits meanwhile;
        here it is also copied into the database when it has become long.
        """
        self._renew_after_fork()
        # Later writes of others are theirs to sync: else each of many sessions would sync anew.
        target = self._last.get(key, self._written) if key else self._written
        with self._sync_lock:
            if self._dead is not None:
                raise self._dead.with_traceback(None)
            if self._synced >= target:
                return
            mark = self._written
            try:
                self._sync_log()
            except OSError as error:
                self._dead = SyncFailed(errno=error.errno)
                raise self._dead from error
            self._synced = mark
            if self._log is not None:
                self._copy_log(self._disk.node(self._log).size)

    def vacuum(self) -> bool:
        """Rewrite the file without removed data; return whether its log could be emptied too."""
        if not os.path.exists(self.path):
            return True
        self._renew_after_fork()
        with self._write_lock, failures("writing", self.path):
            connection = self._writer or self._open_to_write()
            connection.execute("VACUUM")
            busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    def identity(self) -> str:
        """Return the identity of this database, which distinguishes it even from one put in its place."""
        if not self._identity:
            rows = self.read("SELECT hex(name) FROM identity")
            self._identity = rows[0][0] if rows else ""
        return self._identity

    def check(self) -> None:
        """Raise if there is a file that cannot be used. Creates nothing."""
        self.read("SELECT 1")

    def integrity(self) -> list[str]:
        """Return the problems that SQLite finds in the file; read in full, once for each state that it has."""
        version = self.read("PRAGMA data_version")
        mark = (self._written, version[0][0] if version else None)
        if self._sound is None or self._sound[0] != mark:
            try:
                rows = self.read("PRAGMA integrity_check")
            except Damaged as error:  # so broken that it cannot even say how
                rows = [(error.message,)]
            self._sound = (mark, [str(row[0]) for row in rows if row[0] != "ok"])
        return self._sound[1]

    def close(self) -> None:
        """Close both connections; using it again opens them again."""
        self._renew_after_fork()
        with self._write_lock, self._read_lock, self._sync_lock:
            if self._log is not None:
                let_go(self._disk, self._log)
                self._log = None
            open_ones = [self._copier, self._reader, self._writer]
            self._copier = self._reader = self._writer = None
            with failures("closing", self.path), contextlib.ExitStack() as stack:
                for connection in filter(None, open_ones):
                    stack.callback(connection.close)

    def _to_write(self) -> Connection:
        """Return the connection for writing, for the holder of its lock. Raises SyncFailed once a sync has failed."""
        if self._dead is not None:
            raise self._dead.with_traceback(None)
        return self._writer or self._open_to_write()

    def _note(self, key: str) -> None:
        """Note that a key was written, for the sync that has to cover it."""
        self._written += 1
        self._last[key] = self._written
        if len(self._last) > _KEYS_KEPT_MAX:
            # An unknown key is synced with all others: never too little.
            done = self._synced
            self._last = {one: last for one, last in self._last.items() if last > done}

    def _renew_after_fork(self) -> None:
        """Drop the parent's connections in a forked child, which must not even close them."""
        if self._forks != forks.count:
            self._forks = forks.count
            _abandoned.extend(filter(None, (self._reader, self._writer, self._copier)))
            self._reader = self._writer = self._copier = None
            if self._log is not None:
                let_go(self._disk, self._log)
                self._log = None
            self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
            self._sync_lock = threading.Lock()

    def _open_to_write(self) -> Connection:
        writer = self._open(create=True)
        try:
            with translation(f"opening {self.path}"), self._folder() as folder:
                log = self._disk.open_read(os.path.basename(self.path) + "-wal", folder)
        except BaseException:
            writer.close()
            raise
        with self._sync_lock:
            self._writer, self._log, self._entry_synced = writer, log, False
        return writer

    def _open(self, *, create: bool) -> Connection:
        # A file of this user, no symlink, on a local disk; created 0600 if there is none.
        folder_path, name = os.path.split(self.path)
        with translation(f"opening {self.path}"), self._folder(create=create) as folder:
            network = self._disk.network_name(folder)
            if network is not None:
                raise Unavailable(
                    f"{folder_path} is on a network file system ({network})",
                    remedy="Keep the file on a local disk, or use postgresql://.",
                )
            node = plain_file(self._disk, name, folder, self.path)
            if node is not None and node.owner not in (0, os.geteuid()):
                raise Forbidden(f"{self.path} belongs to another user")
        connection = connect_file(self.path)
        try:
            self._version(connection)  # one that is not ours is left unchanged
            use_wal(connection, self.path)
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: Connection) -> None:
        """Bring the tables up to date, safely when several processes start at once."""
        if self._version(connection) == len(self._schema):
            return
        with transaction(connection):
            version = self._version(connection)
            for number in range(version, len(self._schema)):
                for statement in self._schema[number].split(";"):
                    connection.execute(statement)
            if version == 0:
                name = os.urandom(_IDENTITY_BYTES)
                connection.execute("CREATE TABLE identity (name BLOB NOT NULL)")
                connection.execute("INSERT INTO identity VALUES (?)", (name,))
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(self._schema)}")

    def _version(self, connection: Connection) -> int:
        # Tables first: a reader that sees some also sees the marks committed with them, while one that saw no mark yet
        # could see another process's tables a moment later.
        tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION_ID and tables:
            raise Forbidden(
                f"{self.path} is a database of another program", remedy="Name another file; this one is left as it is."
            )
        if version > len(self._schema):
            raise TooNew(f"{self.path} was written by a newer version")
        return version

    @contextlib.contextmanager
    def _folder(self, *, create: bool = False) -> Iterator[int]:
        def make(name: str, above: int) -> None:
            with contextlib.suppress(FileExistsError):
                self._disk.make_directory(name, above)
            self._sync_entries(above)

        way = walk(self._disk, os.path.dirname(self.path), make=make if create else None)
        with held(self._disk, way) as folder:
            yield folder

    def _sync_log(self) -> None:
        """Sync the log of the database, and once also its directory entry."""
        if self._log is None:
            # Closed since: the last process to close it has copied and synced everything, and the log went with that;
            # while it exists, others have it open, and it is synced.
            with self._folder() as folder, contextlib.suppress(FileNotFoundError):
                name = os.path.basename(self.path) + "-wal"
                with held(self._disk, self._disk.open_read(name, folder)) as log:
                    self._disk.sync(log)
            return
        self._disk.sync(self._log)
        if not self._entry_synced:
            with self._folder() as folder:
                self._sync_entries(folder)
            self._entry_synced = True

    def _sync_entries(self, folder: int) -> None:
        # The path was only passed through; to be synced, its end is opened in full.
        with held(self._disk, self._disk.open_directory(".", folder)) as entry:
            self._disk.sync_directory(entry)

    def _copy_log(self, size: int) -> None:
        """Copy the log into the database if it has grown much. A failure is harmless: everything is in the log."""
        if size < self._copied_at:
            self._copied_at = 0  # all of it had been copied: it began anew
        if size - self._copied_at < _CHECKPOINT_BYTES:
            return
        self._copied_at = size
        with contextlib.suppress(HoldfastError):
            if self._copier is None:
                self._copier = self._open(create=False)
            # As far as no other connection is reading or writing that just now.
            with failures("writing", self.path):
                self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


# Connections of a parent process: kept, since closing them here would touch the parent's locks.
_abandoned: list[Connection] = []
