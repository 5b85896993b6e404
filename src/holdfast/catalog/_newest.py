"""The newest sessions of a store on files, if its index is up to date.

The list command is used more than any other, and loading the code of the index takes many times as long
as reading one. So this loads little and changes nothing: it checks that the index is intact, of this store
and up to date, with the same functions as the index itself, and leaves everything else to that.
"""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.catalog._data import price_mark
from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._short_ids import short_id
from holdfast.catalog.sqlite.schema import has_schema, mark_of_store, read_fact
from holdfast.errors import HoldfastError
from holdfast.storage import Disk
from holdfast.storage.files import Touched, Tree, real_path
from holdfast.storage.sqlite import connect, sqlite_errors

TYPE_CHECKING = False  # loading `typing` would take longer than this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.storage.sqlite import Connection

_NEWEST = "SELECT s.updated, s.id, s.data, s.crc, s.settled FROM sessions s ORDER BY s.updated DESC, s.id DESC LIMIT ?"
_BESIDE = (
    "SELECT max(folded) FROM sessions WHERE folded < ? UNION ALL SELECT min(folded) FROM sessions WHERE folded > ?"
)
_TRACE = "SELECT trace, trace_crc FROM sessions WHERE id = ?"


class Number(float):
    """A float that remembers how it was written."""

    text: str


class Listed:
    """A session as a list shows it: like ``SessionMetadata``, whose module takes long to load."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.__dict__.update(found)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a member, as the real class has it."""


class Newest:
    """The newest sessions, and where the others begin if there are more."""

    __slots__ = ("has_more", "rows", "short", "total")

    def __init__(self, rows: list[Listed], limit: int, total: int, short: dict[str, str]) -> None:
        self.rows = rows[:limit]
        self.has_more = len(rows) > limit
        self.total = total
        """The number of sessions."""
        self.short = short
        """The short form of each id."""

    @property
    def next(self) -> str | None:
        """The cursor of the sessions that follow; None at the end."""
        if not self.has_more or not self.rows:
            return None
        from holdfast.catalog._filter import cursor_of

        last = self.rows[-1]
        # An id never needs escaping.
        return cursor_of(f'[{last.updated_at},"{last.session_id}"]'.encode())


def newest(path: str, limit: int) -> Newest | None:
    """Return at most ``limit`` sessions of the store in a directory, newest first.

    None if that is not enough: no store or no index yet, one that is outdated, damaged, or in use, or a
    directory that is refused. The caller then goes the long way, which repairs or reports it.
    """
    try:
        path = real_path(path)
    except HoldfastError:
        return None
    tree = Tree(path, Disk())
    try:
        if tree.root(create=False) is None or tree.node_below("catalog.db") is None:
            return None
        connection = connect(os.path.join(path, "catalog.db"))
        try:
            return _read(connection, tree, path, limit)
        finally:
            connection.close()
    except (HoldfastError, OSError, ValueError, IndexDamaged):
        return None
    except sqlite_errors():
        return None
    finally:
        tree.close()


def _read(connection: Connection, tree: Tree, path: str, limit: int) -> Newest | None:
    if not has_schema(connection) or read_fact(connection, "store") != mark_of_store(path, path).encode():
        return None
    prices, _, mark = read_fact(connection, "mark").decode().partition("\n")
    if prices != price_mark() or not Touched(tree).is_quiet(mark, "sessions"):
        return None
    decode = _decoder()
    # A row has only the members that differ from this one.
    plain = decode(read_fact(connection, "row").decode())
    rows = connection.execute(_NEWEST, (limit + 1,)).fetchall()
    found = [_listed(connection, decode, plain, row) for row in rows]
    if sorted((row[0] for row in rows), reverse=True) != [row[0] for row in rows]:
        raise IndexDamaged("the order of sessions")
    short = {row.session_id: _short(connection, row.session_id) for row in found}
    return Newest(found, limit, decode(read_fact(connection, "sum").decode())[0], short)


def _short(connection: Connection, id: str) -> str:
    """Return the shortest unique prefix of an id: its neighbours in the order of ids are the most similar."""
    folded = id.lower()
    return short_id(id, [other for (other,) in connection.execute(_BESIDE, (folded, folded)) if other is not None])


def _listed(connection: Connection, decode: Callable[[str], Any], plain: dict[str, Any], found: Any) -> Listed:
    updated, id, data, crc, settled = found
    row = Listed({**plain, **_verified(decode, data, crc)})
    if row.session_id != id or row.updated_at != updated:
        raise IndexDamaged("the row of a session")
    if not settled:
        from holdfast.catalog._filter import CUT_SHORT, OPEN, liveness

        trace = _verified(decode, *(connection.execute(_TRACE, (id,)).fetchone() or (None, None)))
        closed, cut_short = trace.get("closed", True), trace.get("cut_short", False)
        now = liveness(closed=closed, cut_short=cut_short, pid=trace.get("pid"), host=trace.get("host"))
        vars(row)["open"] = now == OPEN
        if now == CUT_SHORT:
            vars(row)["status"] = "interrupted"
    return row


def _verified(decode: Callable[[str], Any], data: Any, crc: Any) -> dict[str, Any]:
    found = decode(data.decode()) if isinstance(data, bytes) and crc32(data) == crc else None
    if not isinstance(found, dict):
        raise IndexDamaged("the row of a session")
    return found


def _number(text: str) -> Number:
    made = Number(text)
    made.text = text
    return made


class _Context:
    """The settings of the JSON scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = staticmethod(_number)
    parse_int = int
    parse_constant = staticmethod(_number)
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner's own


def _decoder() -> Callable[[str], Any]:
    """Return a JSON decoder: the engine of Python's ``json``, without its package, which loads regular expressions.

    The package itself if there is no such engine.
    """
    try:
        from _json import make_scanner

        scan = make_scanner(_Context())  # type: ignore[arg-type]  # whatever has these attributes
    except (ImportError, AttributeError, TypeError):
        from json import JSONDecoder

        return JSONDecoder(parse_float=_number).decode
    return lambda text: scan(text, 0)[0]
