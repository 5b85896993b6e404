"""The tables of a PostgreSQL store, as numbered steps that several starters may run at once.

Everything of one session hangs on one ``id``, and all tables are split by it, so a session lives on
one partition and a hot statement touches one session. No sequence, no foreign key, no trigger and
no lock of the whole table is in the way of splitting them over machines.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from holdfast.errors import TooNew

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["CHANGES_TOGETHER_BITS", "MIGRATIONS", "PARTITIONS", "migrate"]

_MIGRATION_LOCK = 0x486F6C64
_MIGRATION_S = 3_600
PARTITIONS = 16

# Every append moves the head of its session. If the number of its last change were in an index,
# PostgreSQL would write the moved head to another place, with an entry in each index, and leave the
# old ones to be swept up. What is in the index is the same for so many transactions in a row: most
# heads are moved inside their page, which keeps room for that, and no index is touched. The
# database works it out from the version itself, so that nobody can forget to.
CHANGES_TOGETHER_BITS = 8
_CHANGED = (
    "changed bigint NOT NULL"
    f" GENERATED ALWAYS AS (version::text::bigint >> {CHANGES_TOGETHER_BITS}) STORED"
)
_ROOM = "fillfactor = 70"
_SPLIT = {"heads": f" WITH ({_ROOM})", "pieces": "", "documents": ""}

_FIRST = f"""
CREATE TABLE names (
    key text PRIMARY KEY,
    folder text NOT NULL,
    folded text NOT NULL,
    id uuid NOT NULL
);
CREATE INDEX names_by_folder ON names (folder, key);
CREATE INDEX names_by_fold ON names (folded);
CREATE TABLE heads (
    id uuid PRIMARY KEY,
    generation bigint NOT NULL DEFAULT 0,
    size bigint NOT NULL DEFAULT 0,
    modified timestamptz NOT NULL DEFAULT clock_timestamp(),
    version xid8 NOT NULL DEFAULT pg_current_xact_id(),
    archived boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL DEFAULT 0,
    holder bytea,
    expires timestamptz NOT NULL DEFAULT clock_timestamp(),
    {_CHANGED}
) PARTITION BY HASH (id);
CREATE INDEX heads_by_change ON heads (changed);
CREATE TABLE pieces (
    id uuid NOT NULL,
    generation bigint NOT NULL,
    start bigint NOT NULL,
    size bigint NOT NULL,
    data bytea NOT NULL,
    packed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, generation, start)
) PARTITION BY HASH (id);
CREATE TABLE documents (
    id uuid NOT NULL,
    name text NOT NULL,
    etag text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, name)
) PARTITION BY HASH (id);
CREATE TABLE identity (name uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO identity DEFAULT VALUES;
""" + "\n".join(
    f"CREATE TABLE {table}_{number} PARTITION OF {table}"
    f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number}){room};"
    for table, room in _SPLIT.items()
    for number in range(PARTITIONS)
)

# What went leaves a row here for a while, so that whoever keeps a list need not compare all names.
_SECOND = """
CREATE TABLE removals (
    key text PRIMARY KEY,
    folder text NOT NULL,
    version xid8 NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX removals_by_version ON removals (folder, version);
CREATE INDEX removals_by_time ON removals (at);
CREATE INDEX names_by_id ON names (id);
ALTER TABLE identity ADD COLUMN forgotten xid8 NOT NULL DEFAULT '0';
"""

# PostgreSQL's first way to compress takes far longer than all else that an append does. A server
# that was built without the other one keeps the first; both can be read side by side.
_THIRD = """
DO $$
DECLARE part regclass;
BEGIN
    FOR part IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            AND c.relname ~ '^(pieces|documents)(_[0-9]+)?$'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN data SET COMPRESSION lz4', part);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'this server has no lz4';
END $$;
"""

# The heads of a store that was made before they were kept as the first step makes them now.
_FOURTH = f"""
DO $$
DECLARE part regclass;
BEGIN
    IF EXISTS (
        SELECT 1 FROM pg_attribute
        WHERE attrelid = 'heads'::regclass AND attname = 'changed' AND NOT attisdropped
    ) THEN
        RETURN;
    END IF;
    DROP INDEX heads_by_version;
    FOR part IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
            AND c.relname ~ '^heads(_[0-9]+)?$'
    LOOP
        EXECUTE format('ALTER TABLE %s SET ({_ROOM})', part);
    END LOOP;
    ALTER TABLE heads ADD COLUMN {_CHANGED};
    CREATE INDEX heads_by_change ON heads (changed);
END $$;
"""  # noqa: S608 - ours

MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""Each brings the tables from one version to the next; a step that was released never changes."""


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the tables up to date; of several that start at once, one does it and the rest wait."""
    # The tables of most are up to date: one question is enough. (The name was checked.)
    question = f"SELECT version FROM {schema}.migrations"  # noqa: S608 - checked to be a name
    with contextlib.suppress(Exception):
        if await connection.fetchval(question) == len(MIGRATIONS):
            return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        # Not "if not exists": that needs the right to make one even where it is there.
        if await connection.fetchval("SELECT to_regnamespace($1)", schema) is None:
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute(f"SET LOCAL search_path TO {schema}")
        await connection.execute("CREATE TABLE IF NOT EXISTS migrations (version int NOT NULL)")
        version = await connection.fetchval("SELECT version FROM migrations") or 0
        if version > len(MIGRATIONS):
            raise TooNew(f"the schema {schema} was made by a newer version")
        # What takes long in a large store is not to be cut off, and begun again, for ever.
        await connection.execute("SET LOCAL statement_timeout TO 0")
        for step in MIGRATIONS[version:]:
            await connection.execute(step, timeout=_MIGRATION_S)
        await connection.execute("DELETE FROM migrations")
        await connection.execute("INSERT INTO migrations VALUES ($1)", len(MIGRATIONS))
