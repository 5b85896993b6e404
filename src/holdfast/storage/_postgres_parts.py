"""What one key has in a PostgreSQL store: its log, its documents, its lease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from holdfast.errors import Conflict, StoreError
from holdfast.storage._holders import Holder, RenewedLease, Renewer, stale, this_holder
from holdfast.storage._names import etag_of
from holdfast.storage._piece_rows import read_rows
from holdfast.storage._postgres_link import Link
from holdfast.storage._postgres_rows import (
    HEAD,
    LOCKED,
    READ,
    check_free,
    describe,
    made,
    made_and_locked,
    put_document,
    unarchive,
    whole_log,
    write_pieces,
)
from holdfast.storage._sending import Packet, Sender, SendingLog, joined
from holdfast.storage.base import Documents, check_document_name

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["PostgresDocuments", "PostgresLease", "PostgresLog", "renew", "send"]


# One statement for all logs of a batch: a head that moved on, or belongs to another epoch, gives no
# row, and then nothing of that log is stored. One key may be there twice, from a writer that lost
# it and from the one that has it now: so each row is known by its number, and not by its key.
_APPEND = """
WITH input AS (
    SELECT n.id, i.epoch, i.start, i.data, i.number
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])
        WITH ORDINALITY AS i(key, epoch, start, data, number)
    JOIN names n USING (key)
    ORDER BY n.id
), moved AS (
    UPDATE heads h
    SET size = h.size + length(i.data), modified = clock_timestamp(),
        version = pg_current_xact_id(), generation = greatest(h.generation, 1)
    FROM input i
    WHERE h.id = i.id AND h.epoch = i.epoch AND h.size = i.start AND NOT h.archived
    RETURNING h.id, h.generation, i.number
), stored AS (
    INSERT INTO pieces (id, generation, start, size, data)
    SELECT i.id, m.generation, i.start, length(i.data), i.data
    FROM input i JOIN moved m USING (number)
)
SELECT m.number, m.id FROM moved m
"""


def send(link: Link, packets: Sequence[Packet]) -> list[StoreError | None]:
    """Store a batch; the outcome of a broken connection is looked up, never guessed."""
    runs = joined(packets)
    whole = [run[0]._replace(data=b"".join(packet.data for packet in run)) for run in runs]
    ids: list[str] = []
    found = link.run(lambda connection: _send(connection, whole, ids))
    link.say(ids)
    return [error for run, error in zip(runs, found, strict=True) for _ in run]


async def _send(
    connection: Connection, packets: list[Packet], ids: list[str]
) -> list[StoreError | None]:
    # It may be the second try after a lost connection. What the first one stored does not fit a
    # second time, gives no row, and is then found in its place.
    rows = await connection.fetch(_APPEND, *_columns(packets))
    stored = {row["number"] for row in rows}
    ids += [str(row["id"]) for row in rows]
    return [
        None if number in stored else await _outcome(connection, packet)
        for number, packet in enumerate(packets, 1)
    ]


def _columns(packets: list[Packet]) -> tuple[list[Any], ...]:
    return (
        [packet.key for packet in packets],
        [packet.epoch for packet in packets],
        [packet.start for packet in packets],
        [packet.data for packet in packets],
    )


async def _outcome(connection: Connection, packet: Packet) -> StoreError | None:
    """Why a packet was not stored; None if it is there, stored by an earlier try."""
    async with connection.transaction():
        # Locked: whoever takes the key over meanwhile must not lose what is added then.
        head = await connection.fetchrow(LOCKED, packet.key)
        if head is None:
            return stale(packet.key)
        if head["archived"] and head["epoch"] == packet.epoch:
            await unarchive(connection, head)
            rows = await connection.fetch(_APPEND, *_columns([packet]))
            return None if rows else stale(packet.key)
        if head["size"] < packet.start + len(packet.data):
            return stale(packet.key)
        rows = await connection.fetch(READ, head["id"], head["generation"], packet.start, 1)
        found = rows and (rows[0]["start"], bytes(rows[0]["data"]))
        return None if found == (packet.start, packet.data) else stale(packet.key)


class PostgresLog(SendingLog):
    """The pieces of one key, each as it was sent."""

    def __init__(self, link: Link, sender: Sender, key: str) -> None:
        super().__init__(sender, key)
        self._link = link

    def stored(self, start: int) -> Iterator[bytes]:
        """Some pieces at a time."""
        head = self._head()
        if head is not None:
            yield from read_rows(lambda at, count: self._rows(head, at, count), start, head["size"])

    def stored_size(self) -> int:
        """The size as the head says."""
        head = self._head()
        return 0 if head is None else int(head["size"])

    def cut_stored(self, offset: int, epoch: int) -> None:
        """Set aside and removed in one transaction."""

        async def work(connection: Connection) -> None:
            async with connection.transaction():
                head = await self._fenced(connection, epoch)
                if head["size"] <= offset:
                    return
                whole = await whole_log(connection, head)
                torn = whole[offset:]
                name = f"quarantine/torn-{offset}-{etag_of(torn)[:8]}"
                await put_document(connection, head["id"], name, torn)
                await write_pieces(
                    connection, head["id"], head["generation"], whole[:offset], pack=False
                )
                await describe(connection, head["id"], head["generation"], offset)

        self._link.run(work)

    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Another generation, in one transaction; the old bytes are kept as a document."""
        new = b"".join(chunks)
        tried = False

        async def work(connection: Connection) -> None:
            nonlocal tried
            again, tried = tried, True
            async with connection.transaction():
                head = await self._fenced(connection, epoch)
                id, generation = head["id"], head["generation"]
                if generation:
                    old = await whole_log(connection, head)
                    if again and old == new:
                        return  # the try before this one was stored
                    name = f"quarantine/generation-{generation}"
                    await put_document(connection, id, name, old)
                    await connection.execute("DELETE FROM pieces WHERE id = $1", id)
                await write_pieces(connection, id, generation + 1, new, pack=False)
                await describe(connection, id, generation + 1, len(new))

        self._link.run(work)

    def generation(self) -> str:
        """The id of the log and how often it was replaced."""
        head = self._head()
        return f"{head['id'].hex}-{head['generation']}" if head and head["generation"] else ""

    async def _fenced(self, connection: Connection, epoch: int) -> Any:
        if epoch == 0:
            await made(connection, self._key)
        head = await connection.fetchrow(LOCKED, self._key)
        if head is None or head["epoch"] != epoch:
            raise stale(self._key)
        return head

    def _head(self) -> Any:
        return self._link.run(lambda connection: connection.fetchrow(HEAD, self._key))

    def _rows(self, head: Any, start: int, count: int) -> list[Any]:
        return self._link.run(
            lambda connection: connection.fetch(READ, head["id"], head["generation"], start, count)
        )


class PostgresDocuments(Documents):
    """Rows of one key."""

    def __init__(self, link: Link, key: str) -> None:
        self._link = link
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Replace one row."""
        check_document_name(name)
        data = bytes(data)
        etag = etag_of(data)
        tried = False

        async def work(connection: Connection) -> None:
            nonlocal tried
            again, tried = tried, True
            async with connection.transaction():
                # The head is locked, since a row that is not there yet cannot be.
                id = (await made_and_locked(connection, self._key))["id"]
                old = await connection.fetchval(
                    "SELECT etag FROM documents WHERE id = $1 AND name = $2", id, name
                )
                if if_match is not None and if_match != (old or ""):
                    if again and old == etag:
                        return  # the try before this one was stored
                    raise Conflict(f"{name} is not what it was", etag=old or "")
                await put_document(connection, id, name, data)

        self._link.run(work)
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        """One row."""
        check_document_name(name)
        row = self._link.run(
            lambda connection: connection.fetchrow(
                "SELECT d.data, d.etag FROM names n JOIN documents d USING (id)"
                " WHERE n.key = $1 AND d.name = $2",
                self._key,
                name,
            )
        )
        return None if row is None else (bytes(row["data"]), row["etag"])

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        rows = self._link.run(
            lambda connection: connection.fetch(
                "SELECT d.name FROM names n JOIN documents d USING (id) WHERE n.key = $1", self._key
            )
        )
        return sorted(row["name"] for row in rows if row["name"].startswith(prefix))

    def delete(self, name: str) -> bool:
        """Remove one row."""
        check_document_name(name)
        done = self._link.run(
            lambda connection: connection.execute(
                "DELETE FROM documents d USING names n WHERE n.id = d.id AND n.key = $1"
                " AND d.name = $2",
                self._key,
                name,
            )
        )
        return bool(done != "DELETE 0")


class PostgresLease(RenewedLease):
    """The holder in the key's head, by the server's clock."""

    def __init__(self, link: Link, renewer: Renewer, key: str) -> None:
        super().__init__(renewer, key)
        self._link = link

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, also from a holder whose time ran out or whose process here is gone."""
        if self._is_held:
            self.renew(ttl_ms)
            return self._epoch
        # A mark of its own, so that a second try knows what the first one did.
        holder = this_holder(f"{owner[:60]} {uuid4().hex}")
        epoch = self._link.run(lambda connection: self._take(connection, holder, ttl_ms))
        return self._hold(holder, epoch, ttl_ms)

    def renew(self, ttl_ms: int) -> None:
        """Put off its end."""
        lost = self._holder is None or renew(self._link, {self._key: (self._epoch, ttl_ms)})
        if lost:
            raise stale(self._key)

    def _give_back(self) -> None:
        self._link.run(
            lambda connection: connection.execute(
                "UPDATE heads h SET holder = NULL FROM names n WHERE n.id = h.id AND n.key = $1"
                " AND h.epoch = $2",
                self._key,
                self._epoch,
            )
        )

    async def _take(self, connection: Connection, holder: Holder, ttl_ms: int) -> int:
        async with connection.transaction():
            head = await made_and_locked(connection, self._key)
            if head["holder"] == holder.to_bytes():
                return int(head["epoch"])
            check_free(self._key, head)
            # Not below the time: a key of this name may have been dropped or moved away, and
            # whoever wrote that one must not be taken for the writer of this one.
            epoch = await connection.fetchval(
                "UPDATE heads SET holder = $2, epoch = greatest("
                "epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),"
                " expires = clock_timestamp() + $3 * interval '1 millisecond'"
                " WHERE id = $1 RETURNING epoch",
                head["id"],
                holder.to_bytes(),
                ttl_ms,
            )
            return int(epoch)


def renew(link: Link, held: dict[str, tuple[int, int]]) -> set[str]:
    """Put off the end of all these leases; the keys whose lease is lost."""
    rows = link.run(
        lambda connection: connection.fetch(
            "UPDATE heads h SET expires = clock_timestamp() + i.ttl * interval '1 millisecond'"
            " FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS i(key, epoch, ttl)"
            " JOIN names n USING (key)"
            " WHERE h.id = n.id AND h.epoch = i.epoch AND h.holder IS NOT NULL RETURNING n.key",
            list(held),
            [epoch for epoch, _ in held.values()],
            [ttl for _, ttl in held.values()],
        )
    )
    return set(held) - {row["key"] for row in rows}
