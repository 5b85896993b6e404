"""Finding a tool's files in a source, and looking at how they begin.

Looking does not use a file up: what no reader reads is offered to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidData
from holdfast.formats._bounds import decode_document
from holdfast.formats._source import Source

if TYPE_CHECKING:
    from holdfast.storage import ForeignDatabase

IsMine = Callable[[Source, str], bool]

_MAGIC = b"SQLite format 3\0"
_LOOKED_AT = 25
_CANDIDATES_MAX = 200
_PACKED = ("", ".zst", ".gz")  # a source unpacks what it reads
_HEAD_BYTES = 64 * 1024
_LONG_HEAD_BYTES = 8 * 1024 * 1024


def names_of(source: Source, ending: str, is_mine: IsMine) -> list[str]:
    """The files with that ending that are the tool's; of a single file the ending is no matter."""
    return [name for name in _candidates(source, ending) if is_mine(source, name)]


def any_of(source: Source, ending: str, is_mine: IsMine) -> bool:
    """Whether there is a file of the tool's among the first ones with that ending."""
    names = _candidates(source, ending)[:_CANDIDATES_MAX]
    return any(is_mine(source, name) for name in names)


def _candidates(source: Source, ending: str) -> list[str]:
    if source.is_file:
        return source.names()
    return sorted(name for packed in _PACKED for name in source.names(ending + packed))


def first_records(source: Source, name: str) -> list[dict[str, Any]]:
    """The objects that a JSONL file begins with; none if it does not begin as one."""
    return source.remember("first records", name, lambda: _first_records(source, name))


def _first_records(source: Source, name: str) -> list[dict[str, Any]]:
    head = source.head(name, _HEAD_BYTES)
    if not head.lstrip().startswith(b"{"):
        return []
    if b"\n" not in head and len(head) >= _HEAD_BYTES:  # a first line with a picture in it
        head = source.head(name, _LONG_HEAD_BYTES)
    found = []
    for line in head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]:
        try:
            value = decode_document(line.strip(), source.bounds)
        except HoldfastError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def records(
    source: Source, name: str, problems: list[str]
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines of a JSONL file with their objects; what is none is told in ``problems``."""
    for line, value in source.values(name, problems):
        if isinstance(value, dict):
            yield line, value
        else:
            problems.append(f"{name}: a line that is no object was left out")


def tables_of(source: Source, name: str) -> dict[str, tuple[str, ...]]:
    """The tables of a SQLite file with their columns; none if it is no such file."""
    return source.remember("tables", name, lambda: _tables_of(source, name))


def _tables_of(source: Source, name: str) -> dict[str, tuple[str, ...]]:
    if not source.head(name, len(_MAGIC)).startswith(_MAGIC):
        return {}
    from holdfast.storage import copy_database

    most = source.bounds.database_bytes_max
    wal = f"{name}-wal"
    try:
        data = source.head(name, most)
        with copy_database(data, source.head(wal, most) if source.has(wal) else b"") as database:
            return database.tables()
    except InvalidData:
        return {}


def whole_rows(
    database: ForeignDatabase, table: str, column: str, name: str, problems: list[str]
) -> list[dict[str, Any]]:
    """The rows of a table in the order of a column, as far as the database is whole.

    Where it is damaged, what lies before the damage and what lies after it is kept.
    """
    try:
        # Both names are words of our own, never of the file.
        return list(database.rows(f"SELECT * FROM {table} ORDER BY {column}"))  # noqa: S608 - names that the reader itself gives
    except InvalidData as error:
        problems.append(f"{name}: {error}; rows of {table} are missing")
    found: dict[Any, dict[str, Any]] = {}
    for way in ("ASC", "DESC"):
        query = f"SELECT rowid AS _at, * FROM {table} ORDER BY _at {way}"  # noqa: S608 - names that the reader itself gives
        rows = database.rows(query)
        try:
            for row in rows:
                found.setdefault(row.pop("_at"), row)
        except InvalidData:
            continue
    return sorted(found.values(), key=lambda row: (str(type(row[column])), row[column]))


def stem(name: str) -> str:
    """A file's name without folder and ending."""
    return name.rpartition("/")[2].rpartition(".")[0] or name.rpartition("/")[2]
