"""The PostgreSQL store: sessions of many machines, fenced by the database itself.

An append is accepted at once and sent with those of other sessions; a flush returns once it is committed.
A writer that lost its lease finds the epoch changed in the very statement that would store its lines, and is fenced.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from holdfast.errors import Conflict, NotFound
from holdfast.model import fold_id
from holdfast.storage._deferred import Dispatch, SendingLog
from holdfast.storage._leases import Holder, LeasedStore, RenewedLease, Renewer, stale
from holdfast.storage._pieces import check_branch, read_rows
from holdfast.storage.base import (
    Capabilities,
    Changes,
    Documents,
    Entry,
    check_document_name,
    check_key,
    check_prefix,
    etag_of,
    folder_of,
    needs_log,
)
from holdfast.storage.postgres import tables
from holdfast.storage.postgres.link import ServerLink, read_options
from holdfast.storage.postgres.sender import LinkSender, note_id
from holdfast.storage.urls import cache_place

if TYPE_CHECKING:
    from uuid import UUID

    from asyncpg import Connection

_EARS_MAX = 256
_ENTRY = """
SELECT n.key, h.id, h.size, h.generation, h.version::text AS version,
    (extract(epoch FROM h.modified) * 1000)::bigint AS modified
FROM names n JOIN heads h USING (id) WHERE h.generation > 0 AND n.key = $1
"""
# A page of names, and then the head of each: the server would otherwise scan all heads for every page.
_ENTRIES = """
SELECT n.key, h.id, h.size, h.generation, h.version::text AS version,
    (extract(epoch FROM h.modified) * 1000)::bigint AS modified
FROM (SELECT key, id FROM names WHERE folder = $1 AND key > $2 ORDER BY key LIMIT $3) n
CROSS JOIN LATERAL (SELECT * FROM heads WHERE id = n.id OFFSET 0) h ORDER BY n.key
"""
_PAGE = 1000
# Found by the index, which groups many changes, and then one by one. Names are looked up for the result: the server,
# which cannot know how small it is, would scan all of them.
_CHANGED = """
SELECT n.key FROM heads h
CROSS JOIN LATERAL (SELECT key, folder FROM names WHERE id = h.id OFFSET 0) n
WHERE h.changed >= $3 AND h.version >= $2::text::xid8 AND n.folder = $1
UNION SELECT key FROM removals WHERE folder = $1 AND version >= $2::text::xid8
"""
_XID_DIGITS_MAX = 20


class PostgresStore(LeasedStore):
    """One schema of one database, shared by all processes that may use it."""

    capabilities = Capabilities(syncs=True, shared=True, can_steal=True, defers=True, archives=True, unique=True)

    def __init__(self, url: str) -> None:
        super().__init__()
        dsns, options = read_options(url)
        self.url = url
        self.link = ServerLink(dsns, options)
        self._sender = LinkSender(self.link)
        self._ears: dict[str, tuple[str, threading.Event]] = {}
        self._ears_lock = threading.Lock()

    def log(self, key: str) -> PostgresLog:
        return PostgresLog(self.link, self._sender, check_key(key))

    def documents(self, key: str) -> PostgresDocuments:
        return PostgresDocuments(self.link, check_key(key))

    def lease(self, key: str) -> PostgresLease:
        return PostgresLease(self.link, self.renewer, check_key(key), self._sender.known)

    def clash(self, key: str) -> str | None:
        query = (
            "SELECT n.key FROM names n JOIN heads h USING (id)"
            " WHERE n.folded = $1 AND n.key <> $2 AND h.generation > 0 LIMIT 1"
        )
        rows = self.link.fetch(query, fold_id(check_key(key)), key)
        return rows[0]["key"] if rows else None

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        check_prefix(prefix)
        last = ""
        while rows := self.link.fetch(_ENTRIES, prefix, last, _PAGE):
            yield from (_entry(row) for row in rows if row["generation"])
            last = rows[-1]["key"]

    def entry(self, key: str) -> Entry | None:
        """Return the entry of one key, with what this process has appended to it."""
        self._sender.catch_up(key)
        rows = self.link.fetch(_ENTRY, check_key(key))
        return _entry(rows[0]) if rows else None

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """Return the keys that changed, by the transactions that were not finished at the mark."""
        check_prefix(prefix)
        self._sender.catch_up()
        now = self.link.fetch(
            # After a crash or a failover the numbers of lost transactions are reused: then everything is compared.
            "SELECT replace(i.name::text, '-', '') || '-' || extract(epoch FROM pg_postmaster_start_time()) AS place,"
            " i.forgotten::text AS forgotten,"
            " pg_snapshot_xmin(pg_current_snapshot())::text AS seen FROM identity i"
        )[0]
        identity, _, seen = mark.partition(":")
        new = f"{now['place']}:{now['seen']}"
        known = identity == now["place"] and seen.isdecimal() and len(seen) < _XID_DIGITS_MAX
        if not known or int(seen) <= int(now["forgotten"]):
            return Changes(new, None, listed=True)
        rows = self.link.fetch(_CHANGED, prefix, seen, int(seen) >> tables.CHANGES_TOGETHER_BITS)
        return Changes(new, frozenset(row["key"] for row in rows), listed=False)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Return every key that has a name. Another thing of that name is recognised by its etag."""
        check_prefix(prefix)
        rows = self.link.fetch("SELECT key FROM names WHERE folder = $1", prefix)
        return {row["key"]: "" for row in rows}

    def catalog_place(self) -> str | None:
        """Return a place in the user's cache directory, for a role that may not create it in the database."""
        return cache_place(self.url)

    def space_catalog_place(self, space: str) -> str | None:
        """Return a place in the user's cache directory, since the one in the database is not limited to a space."""
        return cache_place(f"{self.url}#spaces/{space}")

    def lend_catalog(self) -> ServerLink:
        """Lend the database itself, for one catalogue of all machines."""
        return self.link

    def move(self, key: str, to: str) -> None:
        """Change only the name, however much data the key has."""
        check_key(key)
        check_key(to)
        self.link.run(lambda connection: move_key(connection, key, to), again=False)

    def drop(self, key: str) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                head = await _free(connection, check_key(key))
                await _forget(connection, key, head["id"])
                await _note_removal(connection, key)

        self.link.run(work, again=False)

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Make a copy on the server."""
        check_branch(self, key, to, size)
        self.link.run(lambda connection: branch_key(connection, key, to, size, documents or {}), again=False)

    def _repack(self, key: str, *, archived: bool) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                head = await _free(connection, key, log=True)
                if head["archived"] != archived:
                    await tables.repack(connection, head, archived=archived)

        self.link.run(work)

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        return renew(self.link, held)

    def is_archived(self, key: str) -> bool:
        rows = self.link.fetch(
            "SELECT h.archived FROM names n JOIN heads h USING (id) WHERE n.key = $1", check_key(key)
        )
        return bool(rows and rows[0]["archived"])

    def scrub(self) -> list[str]:
        """Return a reminder that the server decides when it overwrites removed data."""
        told = (
            "PostgreSQL keeps removed rows in its files, its log and its backups until it writes"
            " over them; VACUUM FULL hastens it."
        )
        return [told]

    def wait(self, key: str, seconds: float) -> None:
        """Wait for a notification of the server."""
        ear = self._ear(key)
        if ear is None:
            super().wait(key, seconds)
            return
        ear.wait(seconds)
        ear.clear()

    def _ear(self, key: str) -> threading.Event | None:
        """Return the event that is set when the key's log has grown; None if there is no such key."""
        with self._ears_lock:
            found = self._ears.pop(key, None)
            if found is not None:
                self._ears[key] = found  # the last used one comes last
        if found is not None:
            self.link.keep_listening()
            return found[1]
        rows = self.link.fetch("SELECT id FROM names WHERE key = $1", key)
        if not rows or self.link.is_pooled:
            return None
        name = str(rows[0]["id"])
        new = (name, self.link.listen(name))
        with self._ears_lock:
            kept = self._ears.setdefault(key, new)
            gone = [] if kept is new else [new]
            while len(self._ears) > _EARS_MAX:
                gone.append(self._ears.pop(next(iter(self._ears))))
        for one in gone:
            self.link.unlisten(*one)
        return kept[1]

    def location(self, key: str) -> str:
        """Return the database, without its password, and the key in it."""
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2]
        return f"{urlunsplit((parts.scheme, place, parts.path, '', ''))}#{check_key(key)}"

    def check(self) -> None:
        """Reach the server and make sure that the tables exist."""
        self.link.fetch("SELECT name FROM identity")

    def close(self) -> None:
        self._sender.close()
        super().close()
        self.link.close()


def _entry(row: Any) -> Entry:
    etag = f"{row['id'].hex}-{row['generation']}-{row['size']}-{row['version']}"
    return Entry(row["key"], row["size"], row["modified"], etag)


# The parts of one key in a PostgreSQL store: its log, its documents, its lease.
class PostgresLog(SendingLog):
    """The pieces of one key, each as it was sent."""

    def __init__(self, link: ServerLink, sender: Dispatch, key: str) -> None:
        super().__init__(sender, key)
        self._link = link

    def stored(self, start: int) -> Iterator[bytes]:
        head = self._head()
        if head is not None:
            place = head["id"], head["generation"]
            fetch = self._link.fetch
            yield from read_rows(lambda at, count: fetch(tables.READ, *place, at, count), start, head["size"])

    def stored_size(self) -> int:
        head = self._head()
        return 0 if head is None else int(head["size"])

    def cut_stored(self, offset: int, epoch: int) -> None:
        """Copy the bytes to quarantine and remove them in one transaction."""

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                head = await self._fenced(connection, epoch)
                if head["size"] <= offset:
                    return
                whole = await tables.whole_log(connection, head)
                torn = whole[offset:]
                name = f"quarantine/torn-{offset}-{etag_of(torn)[:8]}"
                await tables.put_document(connection, head["id"], name, torn)
                await tables.write_pieces(connection, head["id"], head["generation"], whole[:offset], pack=False)
                await tables.describe(connection, head["id"], head["generation"], offset)

        self._link.run(work)

    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write a new generation in one transaction; the old bytes are kept as a document."""
        new = b"".join(chunks)
        tried = False

        async def work(connection: Connection) -> None:
            nonlocal tried
            again, tried = tried, True
            async with connection.transaction():
                head = await self._fenced(connection, epoch)
                id, generation = head["id"], head["generation"]
                if generation:
                    old = await tables.whole_log(connection, head)
                    if again and old == new:
                        return  # the previous try was stored
                    name = f"quarantine/generation-{generation}"
                    await tables.put_document(connection, id, name, old)
                    await connection.execute("DELETE FROM pieces WHERE id = $1", id)
                await tables.write_pieces(connection, id, generation + 1, new, pack=False)
                await tables.describe(connection, id, generation + 1, len(new))

        self._link.run(work)

    def generation(self) -> str:
        """Return the id of the log and the number of its replacements."""
        head = self._head()
        return f"{head['id'].hex}-{head['generation']}" if head and head["generation"] else ""

    async def _fenced(self, connection: Connection, epoch: int) -> Any:
        if epoch == 0:
            head = await tables.made_and_locked(connection, self.key)
        else:
            head = await connection.fetchrow(tables.LOCKED, self.key)
        if head is None or head["epoch"] != epoch:
            raise stale(self.key)
        return head

    def _head(self) -> Any:
        return next(iter(self._link.fetch(tables.HEAD, self.key)), None)


class PostgresDocuments(Documents):
    """Rows of one key."""

    def __init__(self, link: ServerLink, key: str) -> None:
        self._link = link
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        check_document_name(name)
        data = bytes(data)
        etag = etag_of(data)
        tried = False

        async def work(connection: Connection) -> None:
            nonlocal tried
            again, tried = tried, True
            async with connection.transaction():
                # The head is locked, since a row that does not exist yet cannot be.
                id = (await tables.made_and_locked(connection, self._key))["id"]
                old = await connection.fetchval("SELECT etag FROM documents WHERE id = $1 AND name = $2", id, name)
                if if_match is not None and if_match != (old or ""):
                    if again and old == etag:
                        return  # the previous try was stored
                    raise Conflict(f"{name} is not what it was", etag=old or "")
                await tables.put_document(connection, id, name, data)

        self._link.run(work)
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        query = "SELECT d.data, d.etag FROM names n JOIN documents d USING (id) WHERE n.key = $1 AND d.name = $2"
        rows = self._link.fetch(query, self._key, check_document_name(name))
        return (bytes(rows[0]["data"]), rows[0]["etag"]) if rows else None

    def names(self, prefix: str = "") -> list[str]:
        rows = self._link.fetch("SELECT d.name FROM names n JOIN documents d USING (id) WHERE n.key = $1", self._key)
        return sorted(row["name"] for row in rows if row["name"].startswith(prefix))

    def delete(self, name: str) -> bool:
        query = (
            "DELETE FROM documents d USING names n WHERE n.id = d.id AND n.key = $1 AND d.name = $2 RETURNING d.name"
        )
        rows = self._link.fetch(query, self._key, check_document_name(name))
        return bool(rows)


class PostgresLease(RenewedLease):
    """The holder in the key's head, by the server's clock."""

    def __init__(self, link: ServerLink, renewer: Renewer, key: str, known: dict[str, UUID]) -> None:
        """``known`` gets the id of a key when it is taken: queries by id read one partition only."""
        super().__init__(renewer, key)
        self._link = link
        self._known = known
        self._id: UUID | None = None

    def renew(self, ttl_ms: int) -> None:
        if self._holder is None or renew(self._link, {self._key: (self._epoch, ttl_ms)}):
            raise stale(self._key)

    def _give_back(self) -> None:
        query = "UPDATE heads SET holder = NULL WHERE id = $1 AND epoch = $2 RETURNING id"
        rows = self._link.fetch(query, self._id, self._epoch)
        self._link.say(str(row["id"]) for row in rows)  # to those that wait for it

    def _take(self, holder: Holder, ttl_ms: int) -> int:
        async def work(connection: Connection) -> int:
            async with connection.transaction():
                head = await tables.made_and_locked(connection, self._key)
                self._id = head["id"]
                if head["holder"] == holder.to_bytes():
                    return int(head["epoch"])
                tables.check_free(self._key, head)
                if not head["generation"]:
                    await tables.check_unique(connection, self._key)
                # At least the time: a key of this name may have been dropped or moved away, and its writer must not be
                # taken for the writer of this one.
                query = (
                    "UPDATE heads SET holder = $2, epoch = greatest("
                    "epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),"
                    " expires = clock_timestamp() + $3 * interval '1 millisecond'"
                    " WHERE id = $1 RETURNING epoch"
                )
                epoch = await connection.fetchval(query, head["id"], holder.to_bytes(), ttl_ms)
                return int(epoch)

        epoch = self._link.run(work)
        assert self._id is not None
        note_id(self._known, self._key, self._id)
        return epoch


def renew(link: ServerLink, held: Mapping[str, tuple[int, int]]) -> set[str]:
    """Extend all these leases; return the keys whose lease is lost."""
    query = (
        "UPDATE heads h SET expires = clock_timestamp() + i.ttl * interval '1 millisecond'"
        " FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS i(key, epoch, ttl)"
        " JOIN names n USING (key)"
        " WHERE h.id = n.id AND h.epoch = i.epoch AND h.holder IS NOT NULL RETURNING n.key"
    )
    rows = link.fetch(query, list(held), [epoch for epoch, _ in held.values()], [ttl for _, ttl in held.values()])
    return set(held) - {row["key"] for row in rows}


# Operations on a whole key of a PostgreSQL store: each in one transaction.
_STATE = f"""
SELECT {tables.FIELDS}, EXISTS (SELECT 1 FROM documents d WHERE d.id = h.id) AS noted
FROM names n JOIN heads h USING (id) WHERE n.key = $1 FOR UPDATE OF n, h
"""  # noqa: S608 - ours
_REMOVED = """
INSERT INTO removals (key, folder, version) VALUES ($1, $2, pg_current_xact_id())
ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at
"""
# A client that was away for longer compares all names.
_FORGET_REMOVALS = """
WITH old AS (
    DELETE FROM removals WHERE at < clock_timestamp() - interval '7 days' RETURNING version
)
UPDATE identity SET forgotten = (SELECT version FROM old ORDER BY version DESC LIMIT 1)
WHERE forgotten < (SELECT version FROM old ORDER BY version DESC LIMIT 1)
"""
_FORGET_CHANCE = 1 / 256


async def move_key(connection: Connection, key: str, to: str) -> None:
    """Rename a key. Raises NotFound, Conflict and Locked."""
    async with connection.transaction():
        head = await _free(connection, key)
        other = await connection.fetchrow(_STATE, to)
        if other is not None:
            _check_not_taken(to, other)
            tables.check_free(to, other)
            await _forget(connection, to, other["id"])
        await tables.check_unique(connection, to, key)
        await connection.execute(
            "UPDATE names SET key = $2, folder = $3, folded = $4 WHERE key = $1", key, to, folder_of(to), fold_id(to)
        )
        await _note_removal(connection, key)
        # Its writer under the old name is fenced off.
        await connection.execute(
            "UPDATE heads SET epoch = epoch + 1, holder = NULL, version = pg_current_xact_id() WHERE id = $1",
            head["id"],
        )


async def branch_key(connection: Connection, key: str, to: str, size: int, documents: Mapping[str, bytes]) -> None:
    """Create a key that begins with the bytes of another one. Raises Conflict and Locked."""
    async with connection.transaction():
        await tables.made_and_locked(connection, to)
        source = await connection.fetchrow(tables.HEAD, key)
        if source is None or source["size"] < size:
            raise Conflict(f"the log of {key} is shorter than {size:,} bytes")
        target = await connection.fetchrow(_STATE, to)
        if target is None:
            raise Conflict(f"{to} is taken")
        _check_not_taken(to, target)
        tables.check_free(to, target)
        await tables.check_unique(connection, to)
        id = target["id"]
        await connection.execute("DELETE FROM documents WHERE id = $1", id)
        whole = await tables.whole_log(connection, source, size)
        await tables.write_pieces(connection, id, 1, whole, pack=False)
        query = (
            "INSERT INTO documents (id, name, etag, data) SELECT $1, name, etag, data"
            " FROM documents WHERE id = $2 AND name LIKE 'blobs/%'"
        )
        await connection.execute(query, id, source["id"])
        for name, data in documents.items():
            await tables.put_document(connection, id, name, data)
        await tables.describe(connection, id, 1, size)


async def _free(connection: Connection, key: str, *, log: bool = False) -> Any:
    """Return the head of a key that has data and no writer."""
    head = await connection.fetchrow(_STATE, key)
    if head is None or not (head["generation"] or (head["noted"] and not log)):
        raise NotFound(f"there is {'no log' if log else 'nothing'} at {key}")
    tables.check_free(key, head)
    return head


def _check_not_taken(key: str, head: Any) -> None:
    """Raise Conflict if a key with this head is more than the remains of a crash at its beginning."""
    if head["generation"] or (head["noted"] and not needs_log(key)):
        raise Conflict(f"{key} is taken")


async def _forget(connection: Connection, key: str, id: Any) -> None:
    for table in ("pieces", "documents", "heads"):
        await connection.execute(f"DELETE FROM {table} WHERE id = $1", id)  # noqa: S608 - ours
    await connection.execute("DELETE FROM names WHERE key = $1", key)


async def _note_removal(connection: Connection, key: str) -> None:
    await connection.execute(_REMOVED, key, folder_of(key))
    if random.random() < _FORGET_CHANCE:  # noqa: S311 - now and then is enough
        await connection.execute(_FORGET_REMOVALS)
