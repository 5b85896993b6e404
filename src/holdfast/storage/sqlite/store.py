"""The SQLite store: logs, documents and leases of many sessions in one file.

An append is one small transaction that does not wait for the disk; a sync makes everything durable
that any session appended before it, so that many sessions share each sync.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.errors import Conflict, Damaged, Fenced, NotFound, UsageError
from holdfast.model import check_id, fold_id
from holdfast.storage._leases import Holder, LeasedStore, RenewedLease, Renewer, stale
from holdfast.storage._pieces import check_branch, read_rows
from holdfast.storage.base import (
    Capabilities,
    Changes,
    Documents,
    Entry,
    Lease,
    Log,
    check_document_name,
    check_key,
    check_prefix,
    etag_of,
    folder_of,
)
from holdfast.storage.sqlite import tables
from holdfast.storage.sqlite.database import SharedDatabase

if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import Connection

# About the duration of a sync; a single caller does not wait.
_GATHER_S = 0.004
_PAGE = 1000


class SQLiteStore(LeasedStore):
    """One database file, shared by many processes of one machine."""

    capabilities = Capabilities(survives_kill=True, syncs=True, shared=True, can_steal=True, archives=True, unique=True)

    def __init__(self, path: str) -> None:
        if not path or "\0" in path:
            raise UsageError("a SQLite store needs the path of a file")
        super().__init__(_GATHER_S)
        self.database = SharedDatabase(path, tables.SCHEMA)
        self.path = self.database.path
        self.url = f"sqlite://{quote(self.path)}"

    def log(self, key: str) -> Log:
        return SQLiteLog(self.database, check_key(key))

    def documents(self, key: str) -> Documents:
        return SQLiteDocuments(self.database, check_key(key))

    def lease(self, key: str) -> Lease:
        return SQLiteLease(self.database, self.renewer, check_key(key))

    def clash(self, key: str) -> str | None:
        found = self.database.read(
            "SELECT key FROM keys WHERE folded = ? AND key <> ? AND generation > 0", (fold_id(check_key(key)), key)
        )
        return next((key for (key,) in found if isinstance(key, str)), None)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        check_prefix(prefix)
        # In the order of names: the index of names finds where a page begins.
        query = f"{tables.ENTRY} WHERE key > ? AND key < ? AND folder = ? AND generation > 0 ORDER BY key LIMIT {_PAGE}"
        last, end = prefix, prefix[:-1] + "0"  # the character after a slash
        while rows := self.database.read(query, (last, end, prefix)):
            yield from map(tables.entry_of, rows)
            last = rows[-1][0]

    def entry(self, key: str) -> Entry | None:
        rows = self.database.read(f"{tables.ENTRY} WHERE key = ? AND generation > 0", (check_key(key),))
        return tables.entry_of(rows[0]) if rows else None

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """Return the keys that changed, by the number of each change and by its time."""
        check_prefix(prefix)
        now_ms, identity = tables.now_ms(), self.database.identity()
        rows = self.database.read("SELECT version FROM store")
        now = tables.number(rows[0][0]) if rows else 0
        next_mark = f"{identity}:{now}:{now_ms}"
        name, number, noted_ms = (*mark.split(":"), "", "")[:3]
        if name != identity or not number.isdecimal() or not noted_ms.isdecimal() or int(number) > now:
            return Changes(next_mark, None, listed=False)
        # A row that changed shortly before the mark was taken stood for appends that came after it, too.
        rows = self.database.read(
            "SELECT key FROM keys WHERE folder = ? AND version > ?"
            " UNION SELECT key FROM keys WHERE folder = ? AND modified BETWEEN ? AND ?",
            (prefix, int(number), prefix, int(noted_ms) - 2 * tables.NOTED_MS, int(noted_ms)),
        )
        return Changes(next_mark, frozenset(row[0] for row in rows), listed=False)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Return every key with any data, and the number of its row."""
        check_prefix(prefix)
        rows = self.database.read(
            "SELECT key, id FROM keys k WHERE folder = ? AND (generation > 0 OR EXISTS"
            " (SELECT 1 FROM documents d WHERE d.id = k.id))",
            (prefix,),
        )
        return {key: str(id) for key, id in rows}

    def catalog_place(self) -> str | None:
        """Return a place beside the file, so that the index does not delay writers of sessions."""
        return f"{self.path}-catalog"

    def space_catalog_place(self, space: str) -> str | None:
        return f"{self.path}-catalog-of-{check_id(space, what='space')}"

    def move(self, key: str, to: str) -> None:
        check_key(key)
        check_key(to)

        def work(connection: Connection) -> None:
            row = tables.free_row(connection, key)
            other = tables.key_row(connection, to)
            if other is not None:
                tables.check_not_taken(connection, to, other)
                tables.check_free(connection, to)
                tables.forget(connection, other.id)
            tables.check_unique(connection, to, key)
            epoch = other.epoch + 1 if other else 0
            connection.execute(
                "UPDATE keys SET key = ?, folder = ?, folded = ?, version = ?, epoch = max(epoch, ?) WHERE id = ?",
                (to, folder_of(to), fold_id(to), tables.next_version(connection), epoch, row.id),
            )
            tables.bury(connection, key, row.epoch)

        self.database.write(work)
        self.database.sync()

    def drop(self, key: str) -> None:
        check_key(key)

        def work(connection: Connection) -> None:
            row = tables.free_row(connection, key)
            tables.forget(connection, row.id)
            tables.bury(connection, key, row.epoch)

        self.database.write(work)
        self.database.sync()

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Make a copy inside the database."""
        check_branch(self, key, to, size)

        def work(connection: Connection) -> None:
            source = tables.key_row(connection, key)
            target = tables.key_row(connection, to)
            if source is None or source.size < size:
                raise Conflict(f"the log of {key} is shorter than {size:,} bytes")
            if target is not None:
                tables.check_not_taken(connection, to, target)
            tables.check_free(connection, to)
            tables.check_unique(connection, to)
            id = tables.made_row(connection, to)
            tables.forget_pieces(connection, id)
            connection.execute("DELETE FROM documents WHERE id = ?", (id,))
            start = 0
            for piece in tables.pieces_of(connection, source.id, 0, size):
                part = piece[: size - start]
                tables.insert_piece(connection, id, start, part)
                start += len(part)
            connection.execute(
                "INSERT OR REPLACE INTO documents (id, name, etag, data) SELECT ?, name, etag, data"
                " FROM documents WHERE id = ? AND name >= 'blobs/' AND name < 'blobs0'",
                (id, source.id),
            )
            for name, data in (documents or {}).items():
                tables.put_document(connection, id, name, data)
            tables.describe(connection, id, new=True)

        self.database.write(work)
        self.database.sync()

    def is_archived(self, key: str) -> bool:
        rows = self.database.read("SELECT archived FROM keys WHERE key = ?", (check_key(key),))
        return bool(rows and rows[0][0])

    def location(self, key: str) -> str:
        return f"{self.path}#{check_key(key)}"

    def scrub(self) -> list[str]:
        """Rewrite the file, so that no removed data is left in its pages."""
        if self.database.vacuum():
            return []
        return ["Another process reads the database: what was removed may be left in its log."]

    def check(self) -> None:
        self.database.check()

    def close(self) -> None:
        super().close()
        self.database.close()

    def _repack(self, key: str, *, archived: bool) -> None:
        def work(connection: Connection) -> None:
            row = tables.key_row(connection, key)
            if row is None or row.generation == 0:
                raise NotFound(f"there is no log at {key}")
            tables.check_free(connection, key)
            if bool(row.archived) != archived:
                tables.repack(connection, row.id, row.size, archived=archived)

        self.database.write(work)
        self.database.sync()

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        def work(connection: Connection) -> set[str]:
            now = tables.now_ms()
            return {
                key
                for key, (epoch, ttl_ms) in held.items()
                if not connection.execute(_RENEW, (now + ttl_ms, key, epoch)).rowcount
            }

        return self.database.write(work)


# The parts of one key in a SQLite store: its log, its documents, its lease.
_KEPT_BYTES_MAX = 1 << 20
_QUICK_BYTES_MAX = 32 << 30  # far from the largest size, which only the other way checks
_RENEW = "UPDATE keys SET expires = ? WHERE key = ? AND epoch = ? AND holder IS NOT NULL"


class SQLiteLog(Log):
    """The pieces of one key, each as it was appended."""

    def __init__(self, database: SharedDatabase, key: str) -> None:
        self._database = database
        self._key = key
        self._appended = 0
        self._synced = 0
        self._kept: list[bytes] = []
        self._lock = threading.Lock()
        self._id = 0  # of the key's row
        self._noted_until_s = 0.0  # until then the row need not change for an append

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Append in one transaction that is committed, not synced. Raises Fenced if another writer took over."""
        now_s = time.monotonic()  # as well as the row's time: the clock may be set forward
        if now_s > self._noted_until_s or not self._append_quickly(data, epoch):
            self._id, size = self._database.write(functools.partial(self._append, data, epoch), self._key)
            self._noted_until_s = now_s + tables.NOTED_MS / 1000 if size < _QUICK_BYTES_MAX else 0.0
        with self._lock:
            self._appended += len(data)
            if self._appended - self._synced <= _KEPT_BYTES_MAX:
                self._kept.append(data)

    def _append_quickly(self, data: bytes, epoch: int) -> bool:
        """Add to the pieces alone, soon after the row was changed; return whether the row allowed it."""
        told = (self._id, self._key, epoch, tables.NOTED_MS)
        parts = tables.parts(data)
        if len(parts) == 1:
            return self._database.execute(tables.APPEND, (len(data), parts[0], *told), self._key) == 1
        rows = [(len(part), part, *told) for part in parts]
        return self._database.write(lambda db: db.executemany(tables.APPEND, rows).rowcount, self._key) == len(rows)

    def _append(self, data: bytes, epoch: int, connection: Connection) -> tuple[int, int]:
        """Add a piece and note the change in the row; return the row's number and the size of the log."""
        version = tables.next_version(connection)
        found = connection.execute(
            "UPDATE keys SET modified = ?, version = ?,"  # noqa: S608 - our own text
            " generation = CASE generation WHEN 0 THEN ? ELSE generation END"
            f" WHERE key = ? AND epoch = ? AND archived = 0 RETURNING id, {tables.SIZE}",
            (tables.now_ms(), version, version, self._key, epoch),
        ).fetchall()
        id, size = found[0] if found else self._restored(connection, epoch)
        tables.insert_piece(connection, id, tables.size(size), data)
        return int(id), int(size) + len(data)

    def sync(self) -> None:
        """Make everything in the file durable; simultaneous callers are served too."""
        with self._lock:
            target, kept = self._appended, len(self._kept)
        self._database.sync(self._key)
        with self._lock:
            self._synced = max(self._synced, target)
            del self._kept[:kept]

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Read some pieces at a time, so that no writer has to wait for a reader."""
        rows = self._database.read(
            f"SELECT id, generation, {tables.SIZE} FROM keys WHERE key = ? AND generation > 0",  # noqa: S608 - our text
            (self._key,),
        )
        if not rows:
            return
        id, generation, end = rows[0][0], tables.number(rows[0][1]), tables.size(rows[0][2])
        # Once the log is replaced nothing more is found: no reader gets a mixture of two.
        yield from read_rows(
            lambda at, count: self._database.read(*tables.reading(id, generation, at, count)), start, end
        )

    def size(self) -> int:
        rows = self._database.read(f"SELECT {tables.SIZE} FROM keys WHERE key = ?", (self._key,))  # noqa: S608
        return tables.size(rows[0][0]) if rows else 0

    def cut(self, offset: int, epoch: int) -> None:
        """Copy the bytes to quarantine and remove them in one transaction."""

        def work(connection: Connection) -> None:
            row = tables.fenced_row(connection, self._key, epoch)
            if row.size <= offset:
                return
            whole = b"".join(tables.pieces_of(connection, row.id, 0, row.size))
            torn = whole[offset:]
            tables.put_document(connection, row.id, f"quarantine/torn-{offset}-{etag_of(torn)[:8]}", torn)
            tables.forget_pieces(connection, row.id)
            tables.insert_frames(connection, row.id, whole[:offset], archived=False)
            tables.describe(connection, row.id)

        self._database.write(work)
        self._database.sync()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write a new generation in one transaction; the old bytes are kept as a document."""
        new = b"".join(chunks)

        def work(connection: Connection) -> None:
            row = tables.fenced_row(connection, self._key, epoch)
            if row.generation:
                old = b"".join(tables.pieces_of(connection, row.id, 0, row.size))
                tables.put_document(connection, row.id, f"quarantine/generation-{row.generation}", old)
            tables.forget_pieces(connection, row.id)
            tables.insert_frames(connection, row.id, new, archived=False)
            tables.describe(connection, row.id, new=True)

        self._database.write(work)
        self._database.sync()

    def generation(self) -> str:
        """Return the number of the change that created it."""
        rows = self._database.read("SELECT generation FROM keys WHERE key = ? AND generation > 0", (self._key,))
        return str(rows[0][0]) if rows else ""

    def damage(self) -> str:
        """Return the problems that SQLite finds in the file, which all sessions share."""
        return "; ".join(self._database.integrity()[:3])

    def unsaved(self) -> bytes:
        with self._lock:
            return b"".join(self._kept)

    def close(self) -> None:
        """Do nothing: the file stays open for the store."""

    def _restored(self, connection: Connection, epoch: int) -> tuple[int, int]:
        """Handle an append that found no row: it was the first, the log is archived, or it is fenced."""
        row = tables.key_row(connection, self._key)
        if row is None and epoch == 0:
            id, size = tables.made_row(connection, self._key), 0
        elif row is not None and row.epoch == epoch and row.archived:
            id, size = row.id, row.size
            tables.repack(connection, id, size, archived=False)
        else:
            raise stale(self._key)
        tables.describe(connection, id, new=row is None)
        return id, size


class SQLiteDocuments(Documents):
    """Rows of one key."""

    def __init__(self, database: SharedDatabase, key: str) -> None:
        self._database = database
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        check_document_name(name)
        etag = etag_of(data)

        def work(connection: Connection) -> None:
            id = tables.made_row(connection, self._key)
            found = connection.execute("SELECT etag FROM documents WHERE id = ? AND name = ?", (id, name)).fetchone()
            old = found[0] if found else ""
            if if_match is not None and if_match != old:
                raise Conflict(f"{name} is not what it was", etag=old)
            tables.put_document(connection, id, name, data)

        self._database.write(work, self._key)
        if sync:
            self._database.sync(self._key)
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        rows = self._database.read(
            "SELECT d.data, d.etag FROM documents d JOIN keys k ON k.id = d.id WHERE k.key = ? AND d.name = ?",
            (self._key, check_document_name(name)),
        )
        if rows and not isinstance(rows[0][0], bytes):  # a column may hold any type
            raise Damaged(f"{name} is something else than bytes", document=name)
        return (rows[0][0], rows[0][1]) if rows else None

    def names(self, prefix: str = "") -> list[str]:
        rows = self._database.read(
            "SELECT d.name FROM documents d JOIN keys k ON k.id = d.id WHERE k.key = ?", (self._key,)
        )
        texts = [name for (name,) in rows if isinstance(name, str)]  # a column may hold any type
        return sorted(name for name in texts if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        gone = self._database.execute(
            "DELETE FROM documents WHERE name = ? AND id = (SELECT id FROM keys WHERE key = ?)",
            (check_document_name(name), self._key),
        )
        self._database.sync()
        return bool(gone)


class SQLiteLease(RenewedLease):
    """The holder in the key's row. It expires unless it is renewed, or with its process."""

    def __init__(self, database: SharedDatabase, renewer: Renewer, key: str) -> None:
        super().__init__(renewer, key)
        self._database = database

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take the lease; one that was lost meanwhile is taken again."""
        try:
            return super().acquire(owner, ttl_ms)
        except Fenced:
            self._holder = None
            return super().acquire(owner, ttl_ms)

    def _take(self, holder: Holder, ttl_ms: int) -> int:
        def work(connection: Connection) -> int:
            id = tables.made_row(connection, self._key)
            query = "SELECT epoch FROM keys WHERE id = ? AND holder = ?"
            for (epoch,) in connection.execute(query, (id, holder.to_bytes())).fetchall():
                return int(epoch)
            tables.check_free(connection, self._key)
            found = connection.execute(
                "UPDATE keys SET epoch = epoch + 1, holder = ?, expires = ? WHERE id = ? RETURNING epoch, generation",
                (holder.to_bytes(), tables.now_ms() + ttl_ms, id),
            ).fetchall()
            if not found[0][1]:
                tables.check_unique(connection, self._key)
            return int(found[0][0])

        # By its key: a flush then covers what a dead writer had not synced.
        return self._database.write(work, self._key)

    def renew(self, ttl_ms: int) -> None:
        if self._holder is None or not self._database.execute(
            _RENEW, (tables.now_ms() + ttl_ms, self._key, self._epoch)
        ):
            raise stale(self._key)

    def _give_back(self) -> None:
        self._database.execute("UPDATE keys SET holder = NULL WHERE key = ? AND epoch = ?", (self._key, self._epoch))
