"""The tables of an index in PostgreSQL.

They stand beside the tables of the store, in the same schema. Everything of one session hangs on
its id, so that they can be split by it; only the words of all sessions are in a table of their own.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from holdfast.storage.postgres import Migrations

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["MIGRATIONS", "TABLES", "drop_tables", "empty_tables", "prepare"]

TABLES = ("sessions", "labels", "folds", "said", "words")

MIGRATIONS = Migrations("holdfast.catalog.postgres", "catalog_state", 0x486F6C65)
"""A step after which a row says something else empties the tables and sets another generation."""

# The extension is one for the whole database, in whichever schema it was put.
_EXTENSION = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_trgm'
"""
_INSIDE = "catalog_words_inside"


async def prepare(connection: Connection, schema: str) -> bool:
    """See to it that the tables are there; whether parts of words are found by pg_trgm.

    Of several that start at once, one makes them and the rest wait. Raises TooNew.
    """
    state = await _state(connection, schema)
    if state is not None and state["version"] == len(MIGRATIONS.steps) and state["ready"]:
        return bool(state["inside"])
    await MIGRATIONS.run(connection, schema)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATIONS.lock)
        await connection.execute(f"SET LOCAL search_path TO {schema}")
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
                "INSERT INTO catalog_state (version, generation, mark)"
                " VALUES ($1, gen_random_uuid(), '')",
                len(MIGRATIONS.steps),
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
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATIONS.lock)
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
