"""What the SQLite index knows of itself: a few values by name, each with a checksum."""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.catalog._faults import IndexDamaged

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from holdfast.storage._sqlite import Connection

__all__ = ["mark_of_store", "read_fact", "write_fact"]


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
