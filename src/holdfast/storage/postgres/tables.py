"""Tables in PostgreSQL, created by numbered steps that several processes may run at once.

All rows of one session have one ``id``, and the store's tables are partitioned by it, so a session
lives on one partition and a hot statement touches one session. No sequence, no foreign key, no
trigger and no lock of the whole table prevents distributing them over machines.
"""

from __future__ import annotations

import contextlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from holdfast.errors import Locked, TooNew
from holdfast.model import fold_id
from holdfast.storage._leases import Holder, locked
from holdfast.storage._pieces import packed, unpacked
from holdfast.storage.base import clashing, etag_of, folder_of, is_session

if TYPE_CHECKING:
    from asyncpg import Connection

_MIGRATION_S = 3_600

# Every append updates the head of its session. If the number of its last change were in an index, PostgreSQL would
# write the updated head to another place, with an entry in each index, and leave the old ones to be vacuumed. The value
# in the index is the same for so many transactions in a row: most heads are updated inside their page, which keeps room
# for that, and no index is touched. The database computes it from the version itself, so that no statement can forget
# to.
CHANGES_TOGETHER_BITS = 8


class Migrations:
    """The steps of one set of tables: the files of ``migrations/`` in a package, by their names.

    Each brings the tables from one version to the next; a released step never changes. The
    first one creates ``table``, whose only row is the version.
    """

    def __init__(self, package: str, table: str, lock: int) -> None:
        found = (files(package) / "migrations").iterdir()
        named = sorted((one.name, one) for one in found if one.name.endswith(".sql"))
        self.steps = tuple(one.read_text("utf-8") for _, one in named)
        self.lock = lock
        """The number of the advisory lock for creating or dropping these tables."""
        self._table = table

    async def run(self, connection: Connection, schema: str) -> None:
        """Bring the tables of a schema up to date; of several processes one does it, the rest wait. Raises TooNew."""
        # Mostly the tables are up to date: one query is enough.
        question = f"SELECT version FROM {schema}.{self._table}"  # noqa: S608 - names of our own
        with contextlib.suppress(Exception):
            async with connection.transaction():  # behind a pooler it is a part of one, which continues
                if await connection.fetchval(question) == len(self.steps):
                    return
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", self.lock)
            # Not "if not exists": that needs the right to create one even if it exists.
            if await connection.fetchval("SELECT to_regnamespace($1)", schema) is None:
                await connection.execute(f"CREATE SCHEMA {schema}")
            await connection.execute(f"SET LOCAL search_path TO {schema}")
            version = 0
            known = await connection.fetchval("SELECT to_regclass($1)", f"{schema}.{self._table}")
            if known is not None:
                version = await connection.fetchval(question) or 0
            if version > len(self.steps):
                raise TooNew(f"the schema {schema} was made by a newer version")
            # A step that takes long in a large store must not be cut off and restarted for ever.
            await connection.execute("SET LOCAL statement_timeout TO 0")
            for step in self.steps[version:]:
                await connection.execute(step, timeout=_MIGRATION_S)
            noted = f"UPDATE {self._table} SET version = $1"  # noqa: S608 - a name of our own
            await connection.execute(noted, len(self.steps))


MIGRATIONS = Migrations("holdfast.storage.postgres", "migrations", 0x486F6C64)  # the tables of the store

# Queries on the tables of a PostgreSQL store inside a transaction.
_FRAME_BYTES = 1 << 20

READ = """
SELECT start, size, data, packed FROM pieces
WHERE id = $1 AND generation = $2 AND start + size > $3 AND start >= coalesce(
    (SELECT max(start) FROM pieces WHERE id = $1 AND generation = $2 AND start <= $3), 0)
ORDER BY start LIMIT $4
"""
# Named one by one: a column that a later version adds does not change the result.
FIELDS = """
h.id, h.generation, h.size, h.archived, h.epoch, h.holder, h.expires > clock_timestamp() AS lasts
"""
HEAD = f"SELECT {FIELDS} FROM names n JOIN heads h USING (id) WHERE n.key = $1"  # noqa: S608 - ours
# The name too: after waiting for the head of a key that was moved meanwhile, it must not be found.
LOCKED = f"{HEAD} FOR UPDATE OF n, h"

# A name and its head are created together, or neither is: the head is visible only to this transaction then.
_MADE = f"""
WITH named AS (
    INSERT INTO names (key, folder, folded, id) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING RETURNING id
)
INSERT INTO heads AS h (id) SELECT id FROM named RETURNING {FIELDS}
"""  # noqa: S608 - ours

_OTHERS = f"""
SELECT n.key, {FIELDS} FROM names n JOIN heads h USING (id)
WHERE n.folded = $1 AND n.key NOT IN ($2, $3) AND (h.generation > 0 OR h.holder IS NOT NULL)
"""  # noqa: S608 - ours
# None if another transaction has the head: it is about to be created there.
_FENCE = """
UPDATE heads SET epoch = epoch + 1, holder = NULL
WHERE id = (SELECT id FROM heads WHERE id = $1 FOR UPDATE SKIP LOCKED) RETURNING epoch
"""


async def repack(connection: Connection, head: Any, *, archived: bool) -> None:
    """Rewrite the log of a locked head, as packed pieces or as plain ones."""
    async with connection.transaction():
        whole = await whole_log(connection, head)
        await write_pieces(connection, head["id"], head["generation"], whole, pack=archived)
        await connection.execute(
            "UPDATE heads SET archived = $2, version = pg_current_xact_id() WHERE id = $1", head["id"], archived
        )


async def whole_log(connection: Connection, head: Any, stop: int | None = None) -> bytes:
    """Return all bytes of a log, or the first ones up to a number."""
    query = "SELECT size, data, packed FROM pieces WHERE id = $1 AND generation = $2 AND start < $3 ORDER BY start"
    rows = await connection.fetch(query, head["id"], head["generation"], head["size"] if stop is None else stop)
    parts = (unpacked(r["data"], r["size"]) if r["packed"] else r["data"] for r in rows)
    return b"".join(parts)[:stop]


async def write_pieces(connection: Connection, id: UUID, generation: int, data: bytes, *, pack: bool) -> None:
    """Replace all pieces of a generation by these bytes."""
    await connection.execute("DELETE FROM pieces WHERE id = $1 AND generation = $2", id, generation)
    frames = [data[at : at + _FRAME_BYTES] for at in range(0, len(data), _FRAME_BYTES)]
    await connection.executemany(
        "INSERT INTO pieces (id, generation, start, size, data, packed) VALUES ($1, $2, $3, $4, $5, $6)",
        [
            (id, generation, n * _FRAME_BYTES, len(one), packed(one) if pack else one, pack)
            for n, one in enumerate(frames)
        ],
    )


async def made_and_locked(connection: Connection, key: str) -> Any:
    """Return the head of a key, created if there is none, locked until the transaction ends."""
    while True:
        # A second query is needed only if another process created it meanwhile.
        head = await connection.fetchrow(LOCKED, key)
        if head is None:
            head = await connection.fetchrow(_MADE, key, folder_of(key), fold_id(key), uuid4())
        if head is not None:
            return head


async def check_unique(connection: Connection, key: str, besides: str = "") -> None:
    """Raise InvalidId if a session that differs only by case exists or is being created."""
    if not is_session(key):
        return
    folded = fold_id(key)
    # Until the end of the transaction; the query after it sees what was committed before.
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", folded)
    for other in await connection.fetch(_OTHERS, folded, key, besides):
        try:
            check_free(key, other)
        except Locked:
            raise clashing(key, other["key"]) from None
        # Its writer has been silent for long: whatever it may still send is refused.
        if other["generation"] or await connection.fetchval(_FENCE, other["id"]) is None:
            raise clashing(key, other["key"])


async def put_document(connection: Connection, id: UUID, name: str, data: bytes) -> None:
    """Replace one document."""
    query = (
        "INSERT INTO documents (id, name, etag, data) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (id, name) DO UPDATE SET etag = excluded.etag, data = excluded.data"
    )
    await connection.execute(query, id, name, etag_of(data), bytes(data))


async def describe(connection: Connection, id: UUID, generation: int, size: int) -> None:
    """Note the size and the generation of a changed log."""
    query = (
        "UPDATE heads SET size = $2, generation = $3, archived = false,"
        " modified = clock_timestamp(), version = pg_current_xact_id() WHERE id = $1"
    )
    await connection.execute(query, id, size, generation)


def check_free(key: str, head: Any) -> None:
    """Raise Locked while the key has a living holder whose term has not expired."""
    if head["holder"] is None or not head["lasts"]:
        return
    holder = Holder.from_bytes(bytes(head["holder"]))
    if not holder.is_gone():
        raise locked(key, holder)
