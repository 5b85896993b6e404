"""The tables of an index in PostgreSQL, as numbered steps that several starters may run at once.

They stand beside the tables of the store, in the same schema. Everything of one session hangs on
its id, so that they can be split by it; only the words of all sessions are in a table of their own.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["MIGRATIONS", "TABLES", "TooNewTables", "drop_tables", "empty_tables", "prepare"]

_LOCK = 0x486F6C65
"""Next to the store's own."""

TABLES = ("sessions", "labels", "folds", "said", "words")

_FIRST = """
CREATE TABLE catalog_state (
    version int NOT NULL, generation uuid NOT NULL, mark text NOT NULL
);
INSERT INTO catalog_state VALUES (0, gen_random_uuid(), '');
CREATE TABLE catalog_sessions (
    id text COLLATE "C" PRIMARY KEY,
    folded text COLLATE "C" NOT NULL,
    updated bigint NOT NULL,
    agent bytea,
    model bytea,
    parent bytea,
    cwd bytea,
    status text NOT NULL,
    archived boolean NOT NULL,
    settled boolean NOT NULL,
    etag text NOT NULL,
    folder text NOT NULL,
    priced text NOT NULL,
    data bytea NOT NULL,
    crc bigint NOT NULL,
    trace bytea NOT NULL,
    trace_crc bigint NOT NULL
);
CREATE INDEX catalog_by_time ON catalog_sessions (updated, id);
CREATE INDEX catalog_by_agent ON catalog_sessions (agent, updated, id);
CREATE INDEX catalog_by_model ON catalog_sessions (model, updated, id);
CREATE INDEX catalog_by_parent ON catalog_sessions (parent, updated, id);
CREATE INDEX catalog_by_cwd ON catalog_sessions (cwd, updated, id);
CREATE INDEX catalog_by_status ON catalog_sessions (status, updated, id);
CREATE INDEX catalog_by_folded ON catalog_sessions (folded);
CREATE TABLE catalog_labels (
    tag bytea NOT NULL,
    updated bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    auto boolean NOT NULL,
    PRIMARY KEY (tag, updated, id)
);
CREATE INDEX catalog_labels_by_id ON catalog_labels (id);
CREATE TABLE catalog_folds (
    id text COLLATE "C" PRIMARY KEY,
    state bytea NOT NULL,
    tally bytea NOT NULL,
    listener bytea NOT NULL,
    said bigint NOT NULL,
    crc bigint NOT NULL
);
CREATE TABLE catalog_said (
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    seq bigint NOT NULL,
    last bigint,
    place bigint NOT NULL,
    time bigint NOT NULL,
    role text NOT NULL,
    name bytea,
    streaming boolean NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX catalog_said_by_seq ON catalog_said (session, seq);
CREATE INDEX catalog_said_by_time ON catalog_said (time, session, number);
CREATE INDEX catalog_said_words ON catalog_said USING gin (words);
CREATE TABLE catalog_words (word text COLLATE "C" PRIMARY KEY);
"""

_SECOND = """
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
ALTER TABLE catalog_sessions
    ADD created bigint NOT NULL,
    ADD title text COLLATE "C" NOT NULL,
    ADD messages bigint NOT NULL,
    ADD tokens bigint NOT NULL,
    ADD cost bigint NOT NULL,
    ADD size bigint NOT NULL,
    ADD text text COLLATE "C" NOT NULL;
CREATE INDEX catalog_by_created ON catalog_sessions (created, id);
CREATE INDEX catalog_by_title ON catalog_sessions (title, id);
CREATE INDEX catalog_by_messages ON catalog_sessions (messages, id);
CREATE INDEX catalog_by_tokens ON catalog_sessions (tokens, id);
CREATE INDEX catalog_by_cost ON catalog_sessions (cost, id);
CREATE INDEX catalog_by_size ON catalog_sessions (size, id);
"""

# Rows and figures say what happened in a session itself, apart from what it took over, and which
# sessions failed.
_THIRD = """
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
"""

# Figures and words know the calls of messages that say of themselves what they ask for.
_FOURTH = _THIRD

MIGRATIONS = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""Each brings the tables from one version to the next; a step that was released never changes.

A step after which a row says something else must empty the tables and set another generation.
"""

# The extension is one for the whole database, in whichever schema it was put.
_EXTENSION = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_trgm'
"""
_INSIDE = "catalog_words_inside"


class TooNewTables(Exception):
    """The tables were made by a newer version."""


async def prepare(connection: Connection, schema: str) -> bool:
    """See to it that the tables are there; whether parts of words are found by pg_trgm.

    Of several that start at once, one makes them and the rest wait. Raises TooNewTables.
    """
    state = await _state(connection, schema)
    if state is not None and state["version"] == len(MIGRATIONS) and state["ready"]:
        return bool(state["inside"])
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(f"SET LOCAL search_path TO {schema}")
        await _migrate(connection, schema)
        return await _index_parts(connection, schema)


async def empty_tables(connection: Connection) -> None:
    """Forget everything; whoever is at work notices by the generation."""
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM catalog_state FOR UPDATE")
        done = await connection.execute(
            "UPDATE catalog_state SET generation = gen_random_uuid(), mark = ''"
        )
        if done == "UPDATE 0":
            await connection.execute(
                "INSERT INTO catalog_state VALUES ($1, gen_random_uuid(), '')", len(MIGRATIONS)
            )
        names = [f"catalog_{one}" for one in TABLES]
        may_truncate = await connection.fetchval(
            "SELECT bool_and(has_table_privilege(name, 'TRUNCATE')) FROM unnest($1::text[]) name",
            names,
        )
        if may_truncate:
            await connection.execute(f"TRUNCATE {', '.join(names)}")
            return
        for name in names:
            await connection.execute(f"DELETE FROM {name}")


async def drop_tables(connection: Connection, schema: str) -> None:
    """Remove every table, as far as they are there."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await _drop(connection, schema)


async def _drop(connection: Connection, schema: str) -> None:
    names = ", ".join(f"{schema}.catalog_{one}" for one in ("state", *TABLES))
    await connection.execute(f"DROP TABLE IF EXISTS {names}")


async def _state(connection: Connection, schema: str) -> Any:
    """The version, and whether what should be there is there; None if there is nothing."""
    # The names of schema and tables are ours, and were checked.
    query = (
        f"SELECT version, to_regclass('{schema}.{_INSIDE}') IS NOT NULL AS inside,"
        f" to_regclass('{schema}.{_INSIDE}') IS NOT NULL OR NOT EXISTS ({_EXTENSION}) AS ready"
        f" FROM {schema}.catalog_state"
    )
    with contextlib.suppress(Exception):
        return await connection.fetchrow(query)
    return None


async def _migrate(connection: Connection, schema: str) -> None:
    version = 0
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.catalog_state") is not None:
        version = await connection.fetchval("SELECT version FROM catalog_state") or 0
    if version > len(MIGRATIONS):
        raise TooNewTables
    if version == 0:
        await _drop(connection, schema)  # what is left of tables whose version is not known
    for step in MIGRATIONS[version:]:
        await connection.execute(step)
    await connection.execute("UPDATE catalog_state SET version = $1", len(MIGRATIONS))


async def _index_parts(connection: Connection, schema: str) -> bool:
    """An index for parts of words, if the extension for it is there or may be had."""
    for place in ("public", schema):
        if await connection.fetchval(_EXTENSION) is None:
            with contextlib.suppress(Exception):
                async with connection.transaction():
                    await connection.execute(f"CREATE EXTENSION pg_trgm SCHEMA {place}")
    home = await connection.fetchval(_EXTENSION)
    if home is None:
        return False
    quoted = home.replace('"', '""')
    with contextlib.suppress(Exception):
        async with connection.transaction():
            for name, table, column in (
                ("catalog_by_text", "sessions", "text"),
                (_INSIDE, "words", "word"),
            ):
                await connection.execute(
                    f"CREATE INDEX IF NOT EXISTS {name} ON catalog_{table}"
                    f' USING gin ({column} "{quoted}".gin_trgm_ops)'
                )
            return True
    return False
