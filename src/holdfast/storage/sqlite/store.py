"""The SQLite store: logs, documents and leases of many sessions in one file.

An append is one small transaction that does not wait for the disk; a sync makes everything durable
that was appended before it, by whichever session, so that many sessions share each sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.errors import Conflict, NotFound, UsageError
from holdfast.model import check_id, fold_id
from holdfast.storage._leases import Renewer
from holdfast.storage._names import folder_of
from holdfast.storage._rows import check_branch
from holdfast.storage._worker import Flusher
from holdfast.storage.base import (
    Capabilities,
    Changes,
    Documents,
    Entry,
    Lease,
    Log,
    Store,
    check_key,
    check_prefix,
)
from holdfast.storage.sqlite.database import SharedDatabase
from holdfast.storage.sqlite.key import SQLiteDocuments, SQLiteLease, SQLiteLog
from holdfast.storage.sqlite.rows import (
    ENTRY,
    SCHEMA,
    bury,
    check_free,
    check_not_taken,
    damaged_row,
    describe,
    entry_of,
    forget,
    forget_pieces,
    free_row,
    insert_piece,
    is_number,
    key_row,
    made_row,
    next_version,
    now_ms,
    pieces_of,
    put_document,
    repack,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.storage.sqlite.connection import Connection

__all__ = ["SQLiteStore"]

# About what a sync takes; nobody waits for it who is alone.
_GATHER_S = 0.004


class SQLiteStore(Store):
    """One database file, shared by many processes of one machine."""

    capabilities = Capabilities(
        survives_kill=True, syncs=True, shared=True, can_steal=True, archives=True
    )

    def __init__(self, path: str) -> None:
        if not path or "\0" in path:
            raise UsageError("a SQLite store needs the path of a file")
        self.database = SharedDatabase(path, SCHEMA)
        self.path = self.database.path
        self.url = f"sqlite://{quote(self.path)}"
        self.renewer = Renewer(self._renew_all)
        self._flusher = Flusher(_GATHER_S)

    def log(self, key: str) -> Log:
        """The key's log."""
        return SQLiteLog(self.database, check_key(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        return SQLiteDocuments(self.database, check_key(key))

    def lease(self, key: str) -> Lease:
        """The key's lease."""
        return SQLiteLease(self.database, self.renewer, check_key(key))

    def exists(self, key: str) -> bool:
        """Whether the key has a log."""
        return bool(
            self.database.read(
                "SELECT 1 FROM keys WHERE key = ? AND generation > 0", (check_key(key),)
            )
        )

    def clash(self, key: str) -> str | None:
        """A key that differs only by case."""
        found = self.database.read(
            "SELECT key FROM keys WHERE folded = ? AND key <> ? AND generation > 0",
            (fold_id(check_key(key)), key),
        )
        return next((key for (key,) in found if isinstance(key, str)), None)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """On the flusher thread; one sync of the file serves all that wait."""
        return self._flusher.sync(logs)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log."""
        check_prefix(prefix)
        for row in self.database.read(f"{ENTRY} WHERE folder = ? AND generation > 0", (prefix,)):
            if isinstance(row[0], str):  # a column takes anything
                yield entry_of(row)

    def entry(self, key: str) -> Entry | None:
        """The entry of one key."""
        rows = self.database.read(f"{ENTRY} WHERE key = ? AND generation > 0", (check_key(key),))
        return entry_of(rows[0]) if rows else None

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """The keys that changed, by the number that every change has."""
        check_prefix(prefix)
        identity, now = self.database.identity(), self._version()
        name, _, number = mark.partition(":")
        if name != identity or not number.isdecimal() or int(number) > now:
            return Changes(f"{identity}:{now}", None, listed=False)
        rows = self.database.read(
            "SELECT key FROM keys WHERE folder = ? AND version > ?", (prefix, int(number))
        )
        return Changes(f"{identity}:{now}", frozenset(row[0] for row in rows), listed=False)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Every key with anything, and the number of its row."""
        check_prefix(prefix)
        rows = self.database.read(
            "SELECT key, id FROM keys k WHERE folder = ? AND (generation > 0 OR EXISTS"
            " (SELECT 1 FROM documents d WHERE d.id = k.id))",
            (prefix,),
        )
        return {key: str(id) for key, id in rows}

    def catalog_place(self) -> str | None:
        """Beside the file: the index must not make writers of sessions wait."""
        return f"{self.path}-catalog"

    def space_catalog_place(self, space: str) -> str | None:
        """Beside the file, by name."""
        return f"{self.path}-catalog-of-{check_id(space, what='space')}"

    def move(self, key: str, to: str) -> None:
        """Under another name, in one transaction."""
        check_key(key)
        check_key(to)

        def work(connection: Connection) -> None:
            row = free_row(connection, key)
            other = key_row(connection, to)
            if other is not None:
                check_not_taken(connection, to, other)
                check_free(connection, to)
                forget(connection, other.id)
            epoch = other.epoch + 1 if other else 0
            connection.execute(
                "UPDATE keys SET key = ?, folder = ?, folded = ?, version = ?,"
                " epoch = max(epoch, ?) WHERE id = ?",
                (to, folder_of(to), fold_id(to), next_version(connection), epoch, row.id),
            )
            bury(connection, key, row.epoch)

        self.database.write(work)
        self.database.sync()

    def drop(self, key: str) -> None:
        """With all it has, in one transaction."""
        check_key(key)

        def work(connection: Connection) -> None:
            row = free_row(connection, key)
            forget(connection, row.id)
            bury(connection, key, row.epoch)

        self.database.write(work)
        self.database.sync()

    def branch(
        self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None
    ) -> None:
        """A copy, made inside the database."""
        check_branch(self, key, to, size)

        def work(connection: Connection) -> None:
            source = key_row(connection, key)
            target = key_row(connection, to)
            if source is None or source.size < size:
                raise Conflict(f"the log of {key} is shorter than {size:,} bytes")
            if target is not None:
                check_not_taken(connection, to, target)
            check_free(connection, to)
            id = made_row(connection, to)
            forget_pieces(connection, id)
            connection.execute("DELETE FROM documents WHERE id = ?", (id,))
            start = 0
            for piece in pieces_of(connection, source.id, 0, size):
                part = piece[: size - start]
                insert_piece(connection, id, start, part)
                start += len(part)
            connection.execute(
                "INSERT OR REPLACE INTO documents (id, name, etag, data) SELECT ?, name, etag, data"
                " FROM documents WHERE id = ? AND name >= 'blobs/' AND name < 'blobs0'",
                (id, source.id),
            )
            for name, data in (documents or {}).items():
                put_document(connection, id, name, data)
            describe(connection, id, size, new=True)

        self.database.write(work)
        self.database.sync()

    def archive(self, key: str) -> None:
        """The pieces of a log packed together."""
        self._repack(check_key(key), archived=True)

    def unarchive(self, key: str) -> None:
        """Make a plain piece of each mebibyte of an archived log."""
        self._repack(check_key(key), archived=False)

    def is_archived(self, key: str) -> bool:
        """Whether it is packed now."""
        rows = self.database.read("SELECT archived FROM keys WHERE key = ?", (check_key(key),))
        return bool(rows and rows[0][0])

    def location(self, key: str) -> str:
        """The file, and the key in it."""
        return f"{self.path}#{check_key(key)}"

    def scrub(self) -> list[str]:
        """The file is written anew: what was removed is not left in its pages."""
        if self.database.vacuum():
            return []
        return ["Another process reads the database: what was removed may be left in its log."]

    def check(self) -> None:
        """Open the file if there is one."""
        self.database.check()

    def close(self) -> None:
        """Stop the threads and close the file."""
        self._flusher.close()
        self.renewer.close()
        self.database.close()

    def _version(self) -> int:
        rows = self.database.read("SELECT version FROM store")
        if rows and not is_number(rows[0][0]):
            raise damaged_row()
        return int(rows[0][0]) if rows else 0

    def _repack(self, key: str, *, archived: bool) -> None:
        def work(connection: Connection) -> None:
            row = key_row(connection, key)
            if row is None or row.generation == 0:
                raise NotFound(f"there is no log at {key}")
            check_free(connection, key)
            if bool(row.archived) != archived:
                repack(connection, row.id, row.size, archived=archived)

        self.database.write(work)
        self.database.sync()

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        """Renew the leases of this process with one transaction; the keys whose lease is lost."""

        def work(connection: Connection) -> set[str]:
            now = now_ms()
            return {
                key
                for key, (epoch, ttl_ms) in held.items()
                if not connection.execute(
                    "UPDATE keys SET expires = ? WHERE key = ? AND epoch = ?"
                    " AND holder IS NOT NULL",
                    (now + ttl_ms, key, epoch),
                ).rowcount
            }

        return self.database.write(work)
