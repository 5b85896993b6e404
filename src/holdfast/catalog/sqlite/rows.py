"""Rows of the SQLite index: read, each verified by its checksum, written, and queried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import (
    EVERYTHING,
    NEWEST,
    SORTS,
    Filter,
    Order,
    Place,
    Statement,
    clamped,
    folded,
    in_order,
    text_of,
)
from holdfast.catalog._index import IndexUpdate, Row, Trace
from holdfast.model import LazyDecoder, SessionMetadata, fold_id
from holdfast.storage.sqlite import transaction

if TYPE_CHECKING:
    from holdfast.catalog._prices import Prices
    from holdfast.storage.sqlite import Connection

_meta_decoder = LazyDecoder(SessionMetadata)
_all_decoder = LazyDecoder(list[SessionMetadata])
_trace_decoder = LazyDecoder(Trace)
_id_of = attrgetter("session_id")


def read_row(id: Any, data: Any, crc: Any) -> SessionMetadata:
    """Return a session as a list shows it, from the columns of that name.

    Raises IndexDamaged if it is not as written.
    """
    if type(data) is bytes and crc32(data) == crc:
        meta = _meta_decoder.decode(data)
        if meta.session_id == id:
            return meta
    raise IndexDamaged("the row of a session")


def read_rows(ids: tuple[Any, ...], data: tuple[Any, ...], crcs: tuple[Any, ...]) -> list[SessionMetadata]:
    """Return many sessions as a list shows them."""
    try:
        if tuple(map(crc32, data)) != crcs:
            raise IndexDamaged("the rows of sessions")
        found = _all_decoder.decode(b"[%b]" % b",".join(data))
    except (TypeError, ValueError) as error:
        raise IndexDamaged("the rows of sessions") from error
    if tuple(map(_id_of, found)) != ids:
        raise IndexDamaged("the rows of sessions")
    return found


def read_whole(id: Any, data: Any, crc: Any, trace: Any, trace_crc: Any) -> Row:
    """Return a session as a list shows it, with the index's knowledge of its log."""
    if type(trace) is bytes and crc32(trace) == trace_crc:
        return Row(read_row(id, data, crc), _trace_decoder.decode(trace))
    raise IndexDamaged("the row of a session")


# Writing the rows of the SQLite index.
COLUMNS = (
    *("updated", "agent", "model", "parent", "cwd", "status"),
    *("created", "messages", "tokens", "cost", "size", "title", "archived", "text"),
)
"""The columns for sorting and filtering, in the order of ``column_values``."""
_ALL = (*COLUMNS, "folder", "settled", "asks", "data", "crc", "trace", "trace_crc")
_FIND = "SELECT row, crc, trace_crc FROM sessions WHERE id = ?"
_INSERT = f"INSERT INTO sessions (id, folded, {', '.join(_ALL)}) VALUES ({', '.join('?' * (2 + len(_ALL)))})"
_UPDATE = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _ALL)} WHERE row = ?"

_encode = msgspec.json.Encoder().encode


def trace_values(trace: Trace) -> tuple[Any, ...]:
    """Return the parts of a trace that have columns of their own."""
    return trace.folder, trace.is_settled, trace.asks


_members = msgspec.structs.asdict


class _Stored(SessionMetadata, frozen=True, kw_only=True, omit_defaults=True):
    """The row of a session in a list, without members that most sessions have in common."""


class Total(msgspec.Struct, array_like=True):
    """The number of rows, and all their checksums in one."""

    count: int = 0
    crc: int = 0


class Writing:
    """The writes of one transaction. ``total`` is written with them."""

    def __init__(self, connection: Connection, total: Total) -> None:
        self.total = total
        self._connection = connection
        self._rows: set[int] = set()

    def put(self, update: IndexUpdate) -> bool:
        """Write the result of a look; return False if others changed the row since."""
        row = update.row
        meta = row.meta
        execute = self._connection.execute
        found = execute(_FIND, (meta.session_id,)).fetchone()
        number, version = (found[0], version_of(*found[1:])) if found else (None, 0)
        if version != update.version:
            return False
        data, trace = stored(meta), _encode(row.trace)
        columns = (*column_values(meta), *trace_values(row.trace), data, crc32(data), trace, crc32(trace))
        if number is None:
            number = execute(_INSERT, (meta.session_id, fold_id(meta.session_id), *columns)).lastrowid or 0
            self.total.count += 1
        else:
            execute(_UPDATE, (*columns, number))
            execute("DELETE FROM labels WHERE row = ?", (number,))
        self.total.crc ^= version ^ version_of(crc32(data), crc32(trace))
        self._rows.add(number)
        self._put_rest(number, update)
        return True

    def remove(self, id: str) -> None:
        """Remove a session, if it is known."""
        from holdfast.catalog.sqlite import search

        execute = self._connection.execute
        found = execute(_FIND, (id,)).fetchone()
        if found is None:
            return
        number, *crcs = found
        self._rows.add(number)
        for table in ("sessions", "labels", "folds"):
            execute(f"DELETE FROM {table} WHERE row = ?", (number,))
        search.forget(self._connection, number)
        self.total.count -= 1
        self.total.crc ^= version_of(*crcs)

    def forget_figures(self) -> None:
        """Remove the sums of the blocks of the written rows."""
        for block in {row >> _BLOCK_SHIFT for row in self._rows}:
            self._connection.execute("DELETE FROM figures WHERE block = ?", (block,))

    def _put_rest(self, number: int, update: IndexUpdate) -> None:
        from holdfast.catalog.sqlite import search

        meta = update.row.meta
        values = (update.state, update.tally, fold_crc(number, update.state, update.tally), number)
        changed = "UPDATE folds SET state = ?, tally = ?, crc = ? WHERE row = ?"
        # No REPLACE: for that SQLite sets a savepoint, for which the full-text table writes itself to the file.
        if not self._connection.execute(changed, values).rowcount:
            self._connection.execute("INSERT INTO folds (state, tally, crc, row) VALUES (?, ?, ?, ?)", values)
        labels = [(tag, clamped(meta.updated_at), meta.session_id, number) for tag in label_keys(meta)]
        self._connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)
        if update.whole:
            search.forget(self._connection, number)
        if update.events:
            search.add(self._connection, number, update.events)


def reprice(connection: Connection, total: Total, prices: Prices | None) -> None:
    """Compute every session's cost again, within the caller's transaction."""
    from holdfast.catalog._prices import Prices, repriced

    prices = Prices() if prices is None else prices
    query = "SELECT row, id, data, s.crc, trace_crc, tally FROM sessions s JOIN folds USING (row) WHERE length(tally)"
    changes = []
    for row, id, data, crc, trace_crc, tally in connection.execute(query):
        meta = read_row(id, data, crc)
        priced = repriced(meta, tally, prices)
        if priced is not meta:
            new = stored(priced)
            total.crc ^= version_of(crc, trace_crc) ^ version_of(crc32(new), trace_crc)
            changes.append((new, crc32(new), SORTS["cost"](priced), row))
    connection.executemany("UPDATE sessions SET data = ?, crc = ?, cost = ? WHERE row = ?", changes)


def column_values(meta: SessionMetadata) -> tuple[Any, ...]:
    """Return the sort keys and filter columns of a session, in the order of ``COLUMNS``."""
    return (
        clamped(meta.updated_at),
        *map(key_of, (meta.agent_id, meta.model, meta.parent, meta.cwd)),
        meta.status,
        *(SORTS[name](meta) for name in ("created", "messages", "tokens", "cost", "size")),
        str(SORTS["title"](meta)).encode(),
        meta.archived,
        text_of(meta).encode(),
    )


def label_keys(meta: SessionMetadata) -> list[bytes]:
    """Return the tags that a session is found by."""
    return [key_of(tag) or b"" for tag in {*meta.tags, *meta.auto_tags}]


def stored(meta: SessionMetadata) -> bytes:
    """Return the bytes of a session's row."""
    return _encode(_Stored(**_members(meta)))


def version_of(crc: int, trace_crc: int) -> int:
    """Return the version of a row, which changes with its contents."""
    # Never 0, which means that there is no row.
    return (crc << 32 | trace_crc) or 1


def fold_crc(number: int, state: bytes, tally: bytes) -> int:
    """Return the checksum of the state kept beside a row."""
    return crc32(tally, crc32(state, number & 0xFFFFFFFF))


def key_of(text: str | None) -> bytes | None:
    """Return a text in the form of the database: compared byte by byte, whatever is in it."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


# Statistics that were added up before, kept in the SQLite index: one sum for each block of rows.
# A write to a session removes the sum of its block, in the same transaction; the next query adds up that block again,
# and no other. So a query costs in proportion to the number of blocks, and writing costs nothing.
_BLOCK_SHIFT = 9
_VARIANTS_MAX = 6
# So many are added up while others wait to write.
_AT_ONCE = 4

Make = Callable[[int], bytes]  # the sum of a block


def block_rows(block: int) -> tuple[int, int]:
    """Return the first row of a block, and the first after it."""
    return block << _BLOCK_SHIFT, (block + 1) << _BLOCK_SHIFT


def keep_figures(connection: Connection, variant: str, make: Make) -> None:
    """Add up what is missing, a few blocks in each transaction."""
    missing = sorted(_blocks(connection) - _kept(connection, variant).keys())
    if missing and connection.execute("SELECT count(DISTINCT variant) FROM figures").fetchone()[0] >= _VARIANTS_MAX:
        # Of another time zone or other prices: they may never be asked for again.
        connection.execute("DELETE FROM figures WHERE variant != ?", (variant,))
    for start in range(0, len(missing), _AT_ONCE):
        with transaction(connection):
            for block in missing[start : start + _AT_ONCE]:
                data = make(block)
                values = (block, variant, data, _crc(block, variant, data))
                connection.execute("INSERT OR REPLACE INTO figures VALUES (?, ?, ?, ?)", values)


def kept_figures(connection: Connection, variant: str, make: Make) -> Iterator[tuple[int, bytes]]:
    """Yield every block with its sum, within the caller's transaction. Raises IndexDamaged."""
    kept = _kept(connection, variant)
    for block in sorted(_blocks(connection)):
        if block in kept:
            data, crc = kept[block]
            if not isinstance(data, bytes) or _crc(block, variant, data) != crc:
                raise IndexDamaged("the sums of sessions")
            yield block, data
        else:  # written to since it was added up
            yield block, make(block)


def _blocks(connection: Connection) -> set[int]:
    query = "SELECT (SELECT min(row) FROM sessions), (SELECT max(row) FROM sessions)"
    first, last = connection.execute(query).fetchone()
    if first is None:
        return set()
    return set(range(first >> _BLOCK_SHIFT, (last >> _BLOCK_SHIFT) + 1))


def _kept(connection: Connection, variant: str) -> dict[int, tuple[bytes, int]]:
    query = "SELECT block, data, crc FROM figures WHERE variant = ?"
    return {block: (data, crc) for block, data, crc in connection.execute(query, (variant,))}


def _crc(block: int, variant: str, data: bytes) -> int:
    return crc32(data, crc32(f"{block} {variant}".encode()))


# The query for one page of sessions.
def selection(
    wanted: Filter, after: Place | None, tags: Sequence[str] | None = None, order: Order = NEWEST
) -> tuple[str, list[Any]]:
    """Return the statement and its values for a page of at least the matching rows, in the order of a list.

    ``tags`` are those of the filter in the best order for checking. The last value is missing: the number of
    rows. The first column is the sort key. What the database cannot know, such as whether there is a writer,
    the caller has to check.
    """
    tags = sorted(wanted.tags) if tags is None else tags
    if wanted.text or (order.name != "updated" and wanted != EVERYTHING):
        return _narrow(wanted, after, tags, order)
    demands = Statement()
    source, place = "sessions s", "s"
    if tags:
        source, place = "labels l CROSS JOIN sessions s ON s.row = l.row", "l"
        demands.demand("l.tag = {}", demands.key(tags[0]))
    elif order.name != "updated":
        source = f"sessions s INDEXED BY by_{order.name}"
    for tag in tags[1:]:
        other = "SELECT 1 FROM labels o WHERE o.tag = {} AND o.updated = s.updated AND o.id = s.id"
        demands.demand(f"EXISTS ({other})", demands.key(tag))
    demands.demand_columns(wanted, "s.")
    demands.demand_times(f"{place}.updated", wanted.since, wanted.until)
    demands.demand_place(after, order, f"{place}.")
    found = f"{source}{demands.where}{in_order(order, f'{place}.')}"
    return f"SELECT {_columns(order)} FROM {found} LIMIT ?", demands.values


def _narrow(wanted: Filter, after: Place | None, tags: Sequence[str], order: Order) -> tuple[str, list[Any]]:
    """Narrow by an index that has all columns of the conditions, so that no row is read in vain."""
    demands = Statement()
    for word in wanted.text:
        demands.demand("instr(text, {}) > 0", word.encode())
    for tag in tags:
        # At least those with the tag: each is on a line of its own.
        demands.demand("instr(text, {}) > 0", f"\n{folded(tag)}\n".encode())
    demands.demand_columns(wanted, "")
    demands.demand_times("updated", wanted.since, wanted.until)
    demands.demand_place(after, order, "")
    found = f"SELECT row FROM sessions INDEXED BY by_text{demands.where}{in_order(order, '')}"
    joined = f"({found} LIMIT ?) n CROSS JOIN sessions s ON s.row = n.row{in_order(order, 's.')}"
    return f"SELECT {_columns(order)} FROM {joined}", demands.values


def _columns(order: Order) -> str:
    return f"s.{order.name}, s.id, s.data, s.crc, s.settled"
