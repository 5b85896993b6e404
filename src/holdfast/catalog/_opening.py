"""Making the index of a store: in its file, or in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.catalog._facts import mark_of_store
from holdfast.catalog._index import Index
from holdfast.errors import Unavailable
from holdfast.storage import Store
from holdfast.storage._sqlite import connect, sqlite_errors

if TYPE_CHECKING:
    from holdfast.storage._postgres_link import Link

__all__ = ["open_in_memory", "open_index", "open_lent"]


def open_index(store: Store, place: str) -> Index:
    """The index in a file, emptied if it is of another store or version.

    Raises Unavailable or Forbidden where there can be no such file, and SQLite's own errors for
    what is wrong with it.
    """
    from holdfast.catalog._sqlite_index import SqliteIndex

    connection = connect(place)
    try:
        return SqliteIndex(connection, mark_of_store(store.identity, os.path.dirname(place)))
    except BaseException:
        connection.close()
        raise


def open_lent(link: Link) -> Index:
    """The index in the database that a store lends.

    Raises IndexRefused where the role may not keep one there, and errors of the store.
    """
    from holdfast.catalog._postgres_index import PostgresIndex

    return PostgresIndex(link)


def open_in_memory(store: Store) -> Index:
    """An empty index in memory, without SQLite if there is none that has what is needed."""
    from holdfast.catalog._plain_index import PlainIndex

    troubles: tuple[type[Exception], ...] = (Unavailable, *sqlite_errors())
    try:
        from holdfast.catalog._sqlite_index import SqliteIndex

        return SqliteIndex(connect(None), store.identity)
    except troubles:
        return PlainIndex()
