"""What one key has in a SQLite store: its log, its documents, its lease."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.errors import Conflict, Damaged
from holdfast.storage._leases import Holder, RenewedLease, Renewer, stale, this_holder
from holdfast.storage._names import etag_of
from holdfast.storage._rows import read_rows
from holdfast.storage.base import Documents, Log, check_document_name
from holdfast.storage.sqlite.database import SharedDatabase
from holdfast.storage.sqlite.rows import (
    check_free,
    damaged_row,
    describe,
    fenced_row,
    forget_pieces,
    insert_frames,
    insert_piece,
    is_number,
    is_size,
    key_row,
    made_row,
    next_version,
    now_ms,
    pieces_of,
    put_document,
    reading,
    repack,
)

if TYPE_CHECKING:
    from holdfast.storage.sqlite.connection import Connection

__all__ = ["SQLiteDocuments", "SQLiteLease", "SQLiteLog"]

_KEPT_BYTES_MAX = 1 << 20


class SQLiteLog(Log):
    """The pieces of one key, each as it was appended."""

    def __init__(self, database: SharedDatabase, key: str) -> None:
        self._database = database
        self._key = key
        self._appended = 0
        self._synced = 0
        self._kept: list[bytes] = []
        self._lock = threading.Lock()

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """One transaction that is committed, not synced. Fenced if another writer took over."""

        def work(connection: Connection) -> None:
            found = connection.execute(
                "UPDATE keys SET size = size + ?, modified = ?, version = ?,"
                " generation = CASE generation WHEN 0 THEN ? ELSE generation END"
                " WHERE key = ? AND epoch = ? AND archived = 0 RETURNING id, size",
                (
                    len(data),
                    now_ms(),
                    version := next_version(connection),
                    version,
                    self._key,
                    epoch,
                ),
            ).fetchall()
            if not found:
                found = [self._restored(connection, len(data), epoch)]
            id, size = found[0]
            insert_piece(connection, id, size - len(data), data)

        self._database.write(work, self._key)
        with self._lock:
            self._appended += len(data)
            if self._appended - self._synced <= _KEPT_BYTES_MAX:
                self._kept.append(data)

    def sync(self) -> None:
        """Everything in the file becomes durable; whoever asked at the same time is served too."""
        with self._lock:
            target, kept = self._appended, len(self._kept)
        self._database.sync(self._key)
        with self._lock:
            self._synced = max(self._synced, target)
            del self._kept[:kept]

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Some pieces at a time, so that no writer has to wait for a reader."""
        rows = self._database.read(
            "SELECT id, generation, size FROM keys WHERE key = ? AND generation > 0", (self._key,)
        )
        if not rows:
            return
        id, generation, end = rows[0]
        if not (is_number(generation) and is_size(end)):
            raise damaged_row()
        # Once the log is replaced nothing more is found: no reader gets a mixture of two.
        yield from read_rows(
            lambda at, count: self._database.read(*reading(id, generation, at, count)),
            start,
            end,
        )

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes."""
        size = self.size()
        start = max(0, size - max_bytes)
        return start, b"".join(self.read(start))

    def size(self) -> int:
        """The size as the key's row says."""
        rows = self._database.read("SELECT size FROM keys WHERE key = ?", (self._key,))
        if rows and not is_size(rows[0][0]):
            raise damaged_row()
        return int(rows[0][0]) if rows else 0

    def cut(self, offset: int, epoch: int) -> None:
        """Set aside and removed in one transaction."""

        def work(connection: Connection) -> None:
            row = fenced_row(connection, self._key, epoch)
            if row.size <= offset:
                return
            whole = b"".join(pieces_of(connection, row.id, 0, row.size))
            torn = whole[offset:]
            name = f"quarantine/torn-{offset}-{etag_of(torn)[:8]}"
            put_document(connection, row.id, name, torn)
            forget_pieces(connection, row.id)
            insert_frames(connection, row.id, whole[:offset], archived=False)
            describe(connection, row.id, offset)

        self._database.write(work)
        self._database.sync()

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Another generation, in one transaction; the old bytes are kept as a document."""
        new = b"".join(chunks)

        def work(connection: Connection) -> None:
            row = fenced_row(connection, self._key, epoch)
            if row.generation:
                old = b"".join(pieces_of(connection, row.id, 0, row.size))
                put_document(connection, row.id, f"quarantine/generation-{row.generation}", old)
            forget_pieces(connection, row.id)
            insert_frames(connection, row.id, new, archived=False)
            describe(connection, row.id, len(new), new=True)

        self._database.write(work)
        self._database.sync()

    def generation(self) -> str:
        """The number of the change that began it."""
        rows = self._database.read(
            "SELECT generation FROM keys WHERE key = ? AND generation > 0", (self._key,)
        )
        return str(rows[0][0]) if rows else ""

    def damage(self) -> str:
        """What SQLite finds wrong with the file, which all sessions share."""
        return "; ".join(self._database.integrity()[:3])

    def unsaved(self) -> bytes:
        """What was appended here since the last sync."""
        with self._lock:
            return b"".join(self._kept)

    def close(self) -> None:
        """The file stays open for the store."""

    def _restored(self, connection: Connection, size: int, epoch: int) -> tuple[int, int]:
        """Why an append found no row: it was the first, the log is archived, or it is fenced."""
        row = key_row(connection, self._key)
        if row is None and epoch == 0:
            id = made_row(connection, self._key)
        elif row is not None and row.epoch == epoch and row.archived:
            id = row.id
            repack(connection, id, row.size, archived=False)
        else:
            raise stale(self._key)
        before = row.size if row else 0
        describe(connection, id, before + size, new=row is None)
        return id, before + size


class SQLiteDocuments(Documents):
    """Rows of one key."""

    def __init__(self, database: SharedDatabase, key: str) -> None:
        self._database = database
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Replace one row."""
        check_document_name(name)
        etag = etag_of(data)

        def work(connection: Connection) -> None:
            id = made_row(connection, self._key)
            found = connection.execute(
                "SELECT etag FROM documents WHERE id = ? AND name = ?", (id, name)
            ).fetchone()
            old = found[0] if found else ""
            if if_match is not None and if_match != old:
                raise Conflict(f"{name} is not what it was", etag=old)
            put_document(connection, id, name, data)

        self._database.write(work, self._key)
        if sync:
            self._database.sync(self._key)
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        """One row."""
        rows = self._database.read(
            "SELECT d.data, d.etag FROM documents d JOIN keys k ON k.id = d.id"
            " WHERE k.key = ? AND d.name = ?",
            (self._key, check_document_name(name)),
        )
        if rows and not isinstance(rows[0][0], bytes):  # a column takes anything
            raise Damaged(f"{name} is something else than bytes", document=name)
        return (rows[0][0], rows[0][1]) if rows else None

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        rows = self._database.read(
            "SELECT d.name FROM documents d JOIN keys k ON k.id = d.id WHERE k.key = ?",
            (self._key,),
        )
        texts = [name for (name,) in rows if isinstance(name, str)]  # a column takes anything
        return sorted(name for name in texts if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Remove one row."""
        check_document_name(name)

        def work(connection: Connection) -> bool:
            return bool(
                connection.execute(
                    "DELETE FROM documents WHERE name = ?"
                    " AND id = (SELECT id FROM keys WHERE key = ?)",
                    (name, self._key),
                ).rowcount
            )

        gone = self._database.write(work)
        self._database.sync()
        return gone


class SQLiteLease(RenewedLease):
    """The holder in the key's row. It runs out when nobody renews it, or with its process."""

    def __init__(self, database: SharedDatabase, renewer: Renewer, key: str) -> None:
        super().__init__(renewer, key)
        self._database = database

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, also from a holder whose time ran out or whose process is gone."""

        def work(connection: Connection) -> tuple[Holder, int]:
            id = made_row(connection, self._key)
            row = key_row(connection, self._key)
            assert row is not None
            mine = self._is_held and row.epoch == self._epoch and bool(row.holder)
            if not mine:
                check_free(connection, self._key)
            holder = self._holder if mine and self._holder else this_holder(owner)
            epoch = row.epoch if mine else row.epoch + 1
            connection.execute(
                "UPDATE keys SET epoch = ?, holder = ?, expires = ? WHERE id = ?",
                (epoch, holder.to_bytes(), now_ms() + ttl_ms, id),
            )
            return holder, epoch

        # By its key: a flush then covers what a writer that is gone had not synced.
        holder, epoch = self._database.write(work, self._key)
        return self._hold(holder, epoch, ttl_ms)

    def renew(self, ttl_ms: int) -> None:
        """Put off its end."""

        def work(connection: Connection) -> bool:
            done = connection.execute(
                "UPDATE keys SET expires = ? WHERE key = ? AND epoch = ? AND holder IS NOT NULL",
                (now_ms() + ttl_ms, self._key, self._epoch),
            )
            return bool(done.rowcount)

        if self._holder is None or not self._database.write(work):
            raise stale(self._key)

    def _give_back(self) -> None:
        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE keys SET holder = NULL WHERE key = ? AND epoch = ?",
                (self._key, self._epoch),
            )

        self._database.write(work)
