"""What is asked of the tables of a PostgreSQL store inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from holdfast.model import fold_id
from holdfast.storage._leases import Holder, locked
from holdfast.storage._names import etag_of, folder_of
from holdfast.storage._zstd import packed, unpacked

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = [
    "FIELDS",
    "HEAD",
    "LOCKED",
    "READ",
    "check_free",
    "describe",
    "made",
    "made_and_locked",
    "put_document",
    "unarchive",
    "whole_log",
    "write_pieces",
]

_FRAME_BYTES = 1 << 20

READ = """
SELECT start, size, data, packed FROM pieces
WHERE id = $1 AND generation = $2 AND start + size > $3 AND start >= coalesce(
    (SELECT max(start) FROM pieces WHERE id = $1 AND generation = $2 AND start <= $3), 0)
ORDER BY start LIMIT $4
"""
# Named one by one: a column that a later version adds does not change what is answered here.
FIELDS = """
h.id, h.generation, h.size, h.archived, h.epoch, h.holder, h.expires > clock_timestamp() AS lasts
"""
HEAD = f"SELECT {FIELDS} FROM names n JOIN heads h USING (id) WHERE n.key = $1"  # noqa: S608 - ours
# The name too: who waited for the head of a key that was moved meanwhile must not find it.
LOCKED = f"{HEAD} FOR UPDATE OF n, h"


async def unarchive(connection: Connection, head: Any) -> None:
    """The plain pieces of a packed log, whose head is locked."""
    async with connection.transaction():
        whole = await whole_log(connection, head)
        await write_pieces(connection, head["id"], head["generation"], whole, pack=False)
        await connection.execute(
            "UPDATE heads SET archived = false, version = pg_current_xact_id() WHERE id = $1",
            head["id"],
        )


async def whole_log(connection: Connection, head: Any, stop: int | None = None) -> bytes:
    """All bytes of a log, or the first so many."""
    rows = await connection.fetch(
        "SELECT size, data, packed FROM pieces WHERE id = $1 AND generation = $2 AND start < $3"
        " ORDER BY start",
        head["id"],
        head["generation"],
        head["size"] if stop is None else stop,
    )
    parts = (unpacked(r["data"], r["size"]) if r["packed"] else r["data"] for r in rows)
    return b"".join(parts)[:stop]


async def write_pieces(
    connection: Connection, id: UUID, generation: int, data: bytes, *, pack: bool
) -> None:
    """Put these bytes in the place of all pieces of a generation."""
    await connection.execute("DELETE FROM pieces WHERE id = $1 AND generation = $2", id, generation)
    frames = [data[at : at + _FRAME_BYTES] for at in range(0, len(data), _FRAME_BYTES)]
    await connection.executemany(
        "INSERT INTO pieces (id, generation, start, size, data, packed)"
        " VALUES ($1, $2, $3, $4, $5, $6)",
        [
            (id, generation, n * _FRAME_BYTES, len(one), packed(one) if pack else one, pack)
            for n, one in enumerate(frames)
        ],
    )


async def made(connection: Connection, key: str) -> UUID:
    """The id of a key, which is made if there is none."""
    while True:
        id: UUID | None = await connection.fetchval("SELECT id FROM names WHERE key = $1", key)
        if id is not None:
            return id
        id = uuid4()
        async with connection.transaction():
            row = await connection.fetchrow(
                "INSERT INTO names (key, folder, folded, id) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (key) DO NOTHING RETURNING id",
                key,
                folder_of(key),
                fold_id(key),
                id,
            )
            if row is not None:
                await connection.execute("INSERT INTO heads (id) VALUES ($1)", id)


async def made_and_locked(connection: Connection, key: str) -> Any:
    """The head of a key, which is made if there is none, locked until the transaction ends."""
    while True:
        head = await connection.fetchrow(LOCKED, key)
        if head is not None:
            return head
        await made(connection, key)


async def put_document(connection: Connection, id: UUID, name: str, data: bytes) -> None:
    """Replace one document."""
    await connection.execute(
        "INSERT INTO documents (id, name, etag, data) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (id, name) DO UPDATE SET etag = excluded.etag, data = excluded.data",
        id,
        name,
        etag_of(data),
        bytes(data),
    )


async def describe(connection: Connection, id: UUID, generation: int, size: int) -> None:
    """Note the size and the generation of a log that changed."""
    await connection.execute(
        "UPDATE heads SET size = $2, generation = $3, archived = false,"
        " modified = clock_timestamp(), version = pg_current_xact_id() WHERE id = $1",
        id,
        size,
        generation,
    )


def check_free(key: str, head: Any) -> None:
    """Raise Locked while a holder has the key that lives and whose time has not run out."""
    if head["holder"] is None or not head["lasts"]:
        return
    holder = Holder.from_bytes(bytes(head["holder"]))
    if not holder.is_gone():
        raise locked(key, holder)
