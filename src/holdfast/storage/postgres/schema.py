"""Tables in PostgreSQL, made by numbered steps that several starters may run at once.

Everything of one session hangs on one ``id``, and the store's tables are split by it, so a session
lives on one partition and a hot statement touches one session. No sequence, no foreign key, no
trigger and no lock of the whole table is in the way of splitting them over machines.
"""

from __future__ import annotations

import contextlib
from importlib.resources import files
from typing import TYPE_CHECKING

from holdfast.errors import TooNew

if TYPE_CHECKING:
    from asyncpg import Connection

__all__ = ["CHANGES_TOGETHER_BITS", "MIGRATIONS", "Migrations"]

_MIGRATION_S = 3_600

# Every append moves the head of its session. If the number of its last change were in an index,
# PostgreSQL would write the moved head to another place, with an entry in each index, and leave the
# old ones to be swept up. What is in the index is the same for so many transactions in a row: most
# heads are moved inside their page, which keeps room for that, and no index is touched. The
# database works it out from the version itself, so that nobody can forget to.
CHANGES_TOGETHER_BITS = 8


class Migrations:
    """The steps of one set of tables: the files of ``migrations/`` in a package, by their names.

    Each brings the tables from one version to the next; a step that was released never changes. The
    first one makes ``table``, whose only row says the version.
    """

    def __init__(self, package: str, table: str, lock: int) -> None:
        found = (files(package) / "migrations").iterdir()
        named = sorted((one.name, one) for one in found if one.name.endswith(".sql"))
        self.steps = tuple(one.read_text("utf-8") for _, one in named)
        self.lock = lock
        """The number of the advisory lock that whoever makes or drops these tables takes."""
        self._table = table

    async def run(self, connection: Connection, schema: str) -> None:
        """Bring the tables up to date; of several that start at once one does it, the rest wait.

        The name of the schema was checked to be one. Raises TooNew.
        """
        # The tables of most are up to date: one question is enough.
        question = f"SELECT version FROM {schema}.{self._table}"  # noqa: S608 - names of our own
        with contextlib.suppress(Exception):
            if await connection.fetchval(question) == len(self.steps):
                return
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", self.lock)
            # Not "if not exists": that needs the right to make one even where it is there.
            if await connection.fetchval("SELECT to_regnamespace($1)", schema) is None:
                await connection.execute(f"CREATE SCHEMA {schema}")
            await connection.execute(f"SET LOCAL search_path TO {schema}")
            version = 0
            known = await connection.fetchval("SELECT to_regclass($1)", f"{schema}.{self._table}")
            if known is not None:
                version = await connection.fetchval(question) or 0
            if version > len(self.steps):
                raise TooNew(f"the schema {schema} was made by a newer version")
            # What takes long in a large store is not to be cut off, and begun again, for ever.
            await connection.execute("SET LOCAL statement_timeout TO 0")
            for step in self.steps[version:]:
                await connection.execute(step, timeout=_MIGRATION_S)
            noted = f"UPDATE {self._table} SET version = $1"  # noqa: S608 - a name of our own
            await connection.execute(noted, len(self.steps))


MIGRATIONS = Migrations("holdfast.storage.postgres", "migrations", 0x486F6C64)
"""The tables of the store."""
