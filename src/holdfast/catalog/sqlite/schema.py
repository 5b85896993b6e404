"""The tables of the index."""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.catalog._faults import IndexDamaged

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer

if TYPE_CHECKING:
    from holdfast.storage.sqlite import Connection


# Raise it with every change of a table or of what a row holds: an index of another version is made
# anew.
_VERSION = 9
_APPLICATION = 0x486F6C64  # "Hold"

_TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB, crc INTEGER) WITHOUT ROWID",
    """
    CREATE TABLE sessions (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        folder TEXT NOT NULL,
        folded TEXT NOT NULL,
        updated INTEGER NOT NULL,
        agent BLOB,
        model BLOB,
        parent BLOB,
        cwd BLOB,
        status TEXT NOT NULL,
        archived INTEGER NOT NULL,
        settled INTEGER NOT NULL,
        created INTEGER NOT NULL,
        title BLOB NOT NULL,
        messages INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        size INTEGER NOT NULL,
        text BLOB NOT NULL,
        data BLOB NOT NULL,
        crc INTEGER NOT NULL,
        trace BLOB NOT NULL,
        trace_crc INTEGER NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX by_id ON sessions (id)",
    # All that a look at the folders asks for, so that it reads little.
    "CREATE INDEX by_folder ON sessions (id, folder)",
    "CREATE INDEX by_time ON sessions (updated, id)",
    "CREATE INDEX by_agent ON sessions (agent, updated, id)",
    "CREATE INDEX by_model ON sessions (model, updated, id)",
    "CREATE INDEX by_parent ON sessions (parent, updated, id)",
    "CREATE INDEX by_cwd ON sessions (cwd, updated, id)",
    "CREATE INDEX by_status ON sessions (status, updated, id)",
    "CREATE INDEX by_folded ON sessions (folded)",
    "CREATE INDEX by_created ON sessions (created, id)",
    "CREATE INDEX by_title ON sessions (title, id)",
    "CREATE INDEX by_messages ON sessions (messages, id)",
    "CREATE INDEX by_tokens ON sessions (tokens, id)",
    "CREATE INDEX by_cost ON sessions (cost, id)",
    "CREATE INDEX by_size ON sessions (size, id)",
    # All that a list can be narrowed and sorted by, so that looking at everything reads little.
    """
    CREATE INDEX by_text ON sessions (
        updated, id, text, created, title, messages, tokens, cost, size, agent, model, parent, cwd,
        status, archived
    )
    """,
    """
    CREATE TABLE labels (
        tag BLOB NOT NULL, updated INTEGER NOT NULL, id TEXT NOT NULL, row INTEGER NOT NULL,
        PRIMARY KEY (tag, updated, id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX by_row ON labels (row)",
    """
    CREATE TABLE folds (
        row INTEGER PRIMARY KEY, state BLOB NOT NULL, tally BLOB NOT NULL, crc INTEGER NOT NULL
    )
    """,
)


def has_schema(connection: Connection) -> bool:
    """Whether the tables are there, as this version makes them."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return bool(application == _APPLICATION and version == _VERSION)


def create_schema(connection: Connection) -> None:
    """Make the tables, within the caller's transaction."""
    from holdfast.catalog.sqlite import search
    from holdfast.catalog.sqlite.rows import FIGURES_TABLE

    for statement in (*_TABLES, FIGURES_TABLE):
        connection.execute(statement)
    search.create_tables(connection)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def drop_schema(connection: Connection) -> None:
    """Remove every table, whoever made it, within the caller's transaction."""
    for kind in ("table", "view"):
        while True:
            # Tables that belong to a virtual one go with it.
            query = (
                "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%'"
                " ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC LIMIT 1"
            )
            found = connection.execute(query, (kind,)).fetchone()
            if found is None:
                break
            name = found[0].replace('"', '""')
            connection.execute(f'DROP {kind} "{name}"')
    connection.execute("PRAGMA user_version = 0")


# What the SQLite index knows of itself: a few values by name, each with a checksum.


def read_fact(connection: Connection, name: str) -> bytes:
    """The value of that name. Raises IndexDamaged if there is none that is as written."""
    query = "SELECT value, crc FROM facts WHERE name = ?"
    found = connection.execute(query, (name,)).fetchone()
    if found is None or not isinstance(found[0], bytes) or _crc(name, found[0]) != found[1]:
        raise IndexDamaged(f"the fact {name}")
    return found[0]


def write_fact(connection: Connection, name: str, value: bytes) -> None:
    """Keep a value, within the caller's transaction."""
    connection.execute(
        "INSERT OR REPLACE INTO facts (name, value, crc) VALUES (?, ?, ?)",
        (name, value, _crc(name, value)),
    )


def mark_of_store(identity: str, folder: str) -> str:
    """Of which store an index in a folder is: one that came with a copied folder is another's."""
    return f"{identity}#{os.stat(folder).st_ino}"


def _crc(name: str, data: bytes) -> int:
    return crc32(data, crc32(name.encode()))
