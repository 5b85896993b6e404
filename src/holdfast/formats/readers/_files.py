"""A tool's files: which they are, how they begin, and their reader. Checking one leaves it to the next reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidData
from holdfast.formats._file import decode_or_none
from holdfast.formats._foreign import Foreign, check_version
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v

if TYPE_CHECKING:
    from holdfast.storage import ForeignDatabase

Record = dict[str, Any]
IsMine = Callable[[Source, str], bool]
ReadFiles = Callable[[Source, list[str]], Iterable[Foreign]]
FileKind = tuple[str, IsMine, ReadFiles]  # the suffix of such files, a check of their content, and their reader

_MAGIC = b"SQLite format 3\0"
_LOOKED_AT = 25
_CANDIDATES_MAX = 200
_PACKED = ("", ".zst", ".gz")  # a source unpacks what it reads
_HEAD_BYTES = 64 * 1024
_LONG_HEAD_BYTES = 8 * 1024 * 1024


class ToolReader:
    """The reader of a tool whose sessions are files of a few kinds."""

    def __init__(self, tool: str, *kinds: FileKind) -> None:
        self.tool = tool
        self._kinds = kinds

    def claims(self, source: Source) -> bool:
        """Return whether there is a file of the tool, by its content."""
        # A home directory may hold thousands: a tool's own files are among the first, or elsewhere.
        return any(
            is_mine(source, name)
            for ending, is_mine, _ in self._kinds
            for name in _candidates(source, ending)[:_CANDIDATES_MAX]
        )

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the sessions of all files; one that two kinds claim is read as the first of them."""
        told: set[str] = set()
        for ending, is_mine, read in self._kinds:
            names = [name for name in _candidates(source, ending) if is_mine(source, name) and name not in told]
            told.update(names)
            yield from read(source, names)


def has_record(is_record: Callable[[Record], bool]) -> IsMine:
    """Return a check of a JSONL file by one of its first objects."""
    return lambda source, name: any(map(is_record, first_records(source, name)))


def has_document(mark: bytes, is_document: Callable[[Record], bool]) -> IsMine:
    """Return a check of a JSON document by its members; one that was cut short if the mark is in it."""
    return lambda source, name: is_document(v.mapping(look(source, name, mark)))


def has_tables(**columns: str) -> IsMine:
    """Return a check of a SQLite file by its tables, each with some of its columns."""

    def is_mine(source: Source, name: str) -> bool:
        known = _tables_of(source, name)
        return all(table in known and set(names.split()) <= set(known[table]) for table, names in columns.items())

    return is_mine


def one_by_one(read: Callable[[Source, str, list[str]], Iterable[Foreign]]) -> ReadFiles:
    """Return a reader of files one by one, with a list for reporting problems."""
    return lambda source, names: chain.from_iterable(read(source, name, []) for name in names)


def _candidates(source: Source, ending: str) -> list[str]:
    """Return the files with that ending; for a single file the ending does not matter."""
    if source.is_file:
        return source.names()
    return sorted(name for packed in _PACKED for name in source.names(ending + packed))


def first_records(source: Source, name: str) -> list[dict[str, Any]]:
    """Return the first objects of a JSONL file; none if it does not begin as one."""

    def look() -> list[dict[str, Any]]:
        head = source.head(name, _HEAD_BYTES)
        # A file that begins otherwise is not searched for lines.
        if not head.lstrip().startswith(b"{"):
            return []
        if b"\n" not in head and len(head) >= _HEAD_BYTES:  # a first line with a picture in it
            head = source.head(name, _LONG_HEAD_BYTES)
        lines = head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
        values = (decode_or_none(line.strip(), source.bounds) for line in lines)
        return [value for value in values if isinstance(value, dict)]

    return source.remember("first records", name, look)


def records(source: Source, name: str, problems: list[str]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of a JSONL file with their objects; others are reported in ``problems``."""
    for line, value in source.values(name, problems):
        if isinstance(value, dict):
            yield line, value
        else:
            problems.append(f"{name}: a line that is no object was left out")


def look(source: Source, name: str, mark: bytes) -> Any:
    """Return a document, to recognise its tool; also one that was cut short, if the mark is in its head."""
    value = source.glimpse(name)
    return value if value is not None or mark not in source.head(name) else _mended(source, name)


def _mended(source: Source, name: str) -> Any:
    def look() -> Any:
        whole = v.mend(source.head(name, source.bounds.document_bytes_max))
        return None if whole is None else decode_or_none(whole, source.bounds)

    return source.remember("mended", name, look)


def open_document(source: Source, name: str, problems: list[str]) -> Any:
    """Return a document, or its intact part; None if there is none. What is missing is reported."""
    try:
        return source.json(name)
    except InvalidData as error:
        value = _mended(source, name)
        rest = "what is whole was read" if value is not None else "nothing of it could be read"
        problems.append(f"{name}: {error}; {rest}")
        return value
    except HoldfastError as error:
        problems.append(f"{name}: {error}")
        return None


def document_beside(
    source: Source, name: str, tool: str, newest: int, is_wanted: Callable[[Any], bool] = lambda _: True
) -> Any:
    """Return a document beside a tool's sessions, or None; a damaged or too new one is reported."""
    if not source.has(name):
        return None
    try:
        value = source.json(name)
        if not is_wanted(value):
            return None
        check_version(name, tool, v.mapping(value).get("version"), newest)
    except HoldfastError as error:
        source.pass_over(name, str(error))
        return None
    return value


def _tables_of(source: Source, name: str) -> dict[str, tuple[str, ...]]:
    """Return the tables of a SQLite file with their columns; none if it is not such a file."""

    def look() -> dict[str, tuple[str, ...]]:
        if not source.head(name, len(_MAGIC)).startswith(_MAGIC):
            return {}
        from holdfast.storage import copy_database

        most, wal = source.bounds.database_bytes_max, f"{name}-wal"
        try:
            data = source.head(name, most)
            with copy_database(data, source.head(wal, most) if source.has(wal) else b"") as database:
                return database.tables()
        except InvalidData:
            return {}

    return source.remember("tables", name, look)


def read_tables(source: Source, name: str, columns: Mapping[str, str], problems: list[str]) -> dict[str, list[Record]]:
    """Return the rows of the existing tables, each in the order of its column, as far as they are intact."""
    with source.database(name) as database:
        known = database.tables()
        return {
            table: _whole_rows(database, table, column, name, problems)
            for table, column in columns.items()
            if table in known
        }


def _whole_rows(
    database: ForeignDatabase, table: str, column: str, name: str, problems: list[str]
) -> list[dict[str, Any]]:
    """Return the rows of a table in the order of a column; of a damaged one those before and after the damage."""
    try:
        # Both names are our own, never the file's.
        return list(database.rows(f"SELECT * FROM {table} ORDER BY {column}"))  # noqa: S608 - names that the reader itself gives
    except InvalidData as error:
        problems.append(f"{name}: {error}; rows of {table} are missing")
    found: dict[Any, dict[str, Any]] = {}
    # A damaged page stops a scan: from both ends all rows but those on it are reached.
    for way in ("ASC", "DESC"):
        query = f"SELECT rowid AS _at, * FROM {table} ORDER BY _at {way}"  # noqa: S608 - names that the reader itself gives
        with suppress(InvalidData):
            for row in database.rows(query):
                found.setdefault(row.pop("_at"), row)
    return sorted(found.values(), key=lambda row: (str(type(row[column])), row[column]))


def grouped(rows: Iterable[Record], column: str) -> dict[str, list[Record]]:
    """Return rows grouped by the text in one of their columns, in their order."""
    groups: dict[str, list[Record]] = {}
    for row in rows:
        groups.setdefault(v.text(row.get(column)), []).append(row)
    return groups


def stem(name: str) -> str:
    """Return a file's name without folder and ending."""
    return name.rpartition("/")[2].rpartition(".")[0] or name.rpartition("/")[2]
