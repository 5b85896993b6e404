"""The tables of the index."""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.catalog._data import data_statements
from holdfast.catalog._faults import IndexDamaged

TYPE_CHECKING = False  # short commands load this, and loading `typing` takes longer

if TYPE_CHECKING:
    from holdfast.storage.sqlite import Connection

# Raise it with every change of a table or of a row's contents: an index of another version is rebuilt.
_VERSION = 10
_APPLICATION = 0x486F6C64  # "Hold"


def has_schema(connection: Connection) -> bool:
    """Return whether the tables exist in this version's form."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return bool(application == _APPLICATION and version == _VERSION)


def create_schema(connection: Connection) -> None:
    """Create the tables, within the caller's transaction."""
    from holdfast.catalog.sqlite import search

    for statement in data_statements("index.sql"):
        connection.execute(statement)
    search.create_tables(connection)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def drop_schema(connection: Connection) -> None:
    """Remove every table within the caller's transaction, including those of other programs."""
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


# Facts of the SQLite index about itself: a few values by name, each with a checksum.
def read_fact(connection: Connection, name: str) -> bytes:
    """Return the value of that name. Raises IndexDamaged if there is none that is as written."""
    found = connection.execute("SELECT value, crc FROM facts WHERE name = ?", (name,)).fetchone()
    if found is None or not isinstance(found[0], bytes) or _crc(name, found[0]) != found[1]:
        raise IndexDamaged(f"the fact {name}")
    return found[0]


def write_fact(connection: Connection, name: str, value: bytes) -> None:
    """Keep a value, within the caller's transaction."""
    connection.execute(
        "INSERT OR REPLACE INTO facts (name, value, crc) VALUES (?, ?, ?)", (name, value, _crc(name, value))
    )


def mark_of_store(identity: str, folder: str) -> str:
    """Return the identity of the store of an index in a folder: one in a copied folder belongs to another."""
    return f"{identity}#{os.stat(folder).st_ino}"


def _crc(name: str, data: bytes) -> int:
    return crc32(data, crc32(name.encode()))
