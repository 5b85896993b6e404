"""What is done to a whole key of a PostgreSQL store: each in one transaction."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, NotFound
from holdfast.model import fold_id
from holdfast.storage._names import folder_of, needs_log
from holdfast.storage._postgres_rows import (
    FIELDS,
    HEAD,
    check_free,
    made_and_locked,
    put_document,
    unarchive,
    whole_log,
    write_pieces,
)

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["archive_key", "branch_key", "drop_key", "move_key", "unarchive_key"]

_STATE = f"""
SELECT {FIELDS}, EXISTS (SELECT 1 FROM documents d WHERE d.id = h.id) AS noted
FROM names n JOIN heads h USING (id) WHERE n.key = $1 FOR UPDATE OF n, h
"""  # noqa: S608 - ours
_REMOVED = """
INSERT INTO removals (key, folder, version) VALUES ($1, $2, pg_current_xact_id())
ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at
"""
# Whoever was away for longer compares all names.
_FORGET_REMOVALS = """
WITH old AS (
    DELETE FROM removals WHERE at < clock_timestamp() - interval '7 days' RETURNING version
)
UPDATE identity SET forgotten = (SELECT version FROM old ORDER BY version DESC LIMIT 1)
WHERE forgotten < (SELECT version FROM old ORDER BY version DESC LIMIT 1)
"""
_FORGET_CHANCE = 1 / 256


async def move_key(connection: Connection, key: str, to: str) -> None:
    """Give a key another name. Raises NotFound, Conflict and Locked."""
    async with connection.transaction():
        head = await _free(connection, key)
        other = await connection.fetchrow(_STATE, to)
        if other is not None:
            _check_not_taken(to, other)
            check_free(to, other)
            await _forget(connection, to, other["id"])
        await connection.execute(
            "UPDATE names SET key = $2, folder = $3, folded = $4 WHERE key = $1",
            key,
            to,
            folder_of(to),
            fold_id(to),
        )
        await _note_removal(connection, key)
        # Whoever wrote it under its old name is fenced off.
        await connection.execute(
            "UPDATE heads SET epoch = epoch + 1, holder = NULL, version = pg_current_xact_id()"
            " WHERE id = $1",
            head["id"],
        )


async def branch_key(
    connection: Connection, key: str, to: str, size: int, documents: Mapping[str, bytes]
) -> None:
    """Make a key that begins with what another one has. Raises Conflict and Locked."""
    async with connection.transaction():
        await made_and_locked(connection, to)
        source = await connection.fetchrow(HEAD, key)
        if source is None or source["size"] < size:
            raise Conflict(f"the log of {key} is shorter than {size:,} bytes")
        target = await connection.fetchrow(_STATE, to)
        if target is None:
            raise Conflict(f"{to} is taken")
        _check_not_taken(to, target)
        check_free(to, target)
        id = target["id"]
        await connection.execute("DELETE FROM documents WHERE id = $1", id)
        whole = await whole_log(connection, source, size)
        await write_pieces(connection, id, 1, whole, pack=False)
        await connection.execute(
            "INSERT INTO documents (id, name, etag, data) SELECT $1, name, etag, data"
            " FROM documents WHERE id = $2 AND name LIKE 'blobs/%'",
            id,
            source["id"],
        )
        for name, data in documents.items():
            await put_document(connection, id, name, data)
        await connection.execute(
            "UPDATE heads SET size = $2, generation = 1, modified = clock_timestamp(),"
            " version = pg_current_xact_id() WHERE id = $1",
            id,
            size,
        )


async def drop_key(connection: Connection, key: str) -> None:
    """Remove a key with all it has. Raises NotFound and Locked."""
    async with connection.transaction():
        head = await _free(connection, key)
        await _forget(connection, key, head["id"])
        await _note_removal(connection, key)


async def archive_key(connection: Connection, key: str) -> None:
    """Pack the pieces of a log together. Raises NotFound and Locked."""
    async with connection.transaction():
        head = await _free(connection, key, log=True)
        if head["archived"]:
            return
        whole = await whole_log(connection, head)
        await write_pieces(connection, head["id"], head["generation"], whole, pack=True)
        await connection.execute(
            "UPDATE heads SET archived = true, version = pg_current_xact_id() WHERE id = $1",
            head["id"],
        )


async def unarchive_key(connection: Connection, key: str) -> None:
    """Keep a log as plain pieces again. Raises NotFound and Locked."""
    async with connection.transaction():
        head = await _free(connection, key, log=True)
        if head["archived"]:
            await unarchive(connection, head)


async def _free(connection: Connection, key: str, *, log: bool = False) -> Any:
    """The head of a key that has something and that nobody writes."""
    head = await connection.fetchrow(_STATE, key)
    if head is None or not (head["generation"] or (head["noted"] and not log)):
        raise NotFound(f"there is {'no log' if log else 'nothing'} at {key}")
    check_free(key, head)
    return head


def _check_not_taken(key: str, head: Any) -> None:
    """Raise Conflict if a key that has this head is more than what a crash left of a beginning."""
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
