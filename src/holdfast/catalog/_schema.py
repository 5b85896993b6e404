"""The tables of the index."""

from __future__ import annotations

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from holdfast.storage._sqlite import Connection

__all__ = ["create_schema", "drop_schema", "has_schema"]

# Raise it with every change of a table or of what a row holds: an index of another version is made
# anew.
_VERSION = 7
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
    from holdfast.catalog import _derived
    from holdfast.catalog._sqlite_figures import FIGURES_TABLE

    for statement in (*_TABLES, FIGURES_TABLE):
        connection.execute(statement)
    _derived.create_tables(connection)
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
