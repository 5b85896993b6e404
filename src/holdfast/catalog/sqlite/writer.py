"""Writing the rows of the SQLite index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._orders import SORTS, text_of
from holdfast.catalog.sqlite.figures import forget_figures
from holdfast.errors import InvalidData
from holdfast.model import SessionMetadata, fold_id

if TYPE_CHECKING:
    from holdfast.catalog._index import IndexUpdate
    from holdfast.catalog._prices import Prices
    from holdfast.storage.sqlite import Connection

__all__ = [
    "COLUMNS",
    "Total",
    "Writing",
    "clamped",
    "column_values",
    "fold_crc",
    "key_of",
    "label_keys",
    "reprice",
    "stored",
    "version_of",
]

_INT64_MAX = (1 << 63) - 1
COLUMNS = (
    *("updated", "agent", "model", "parent", "cwd", "status"),
    *("created", "messages", "tokens", "cost", "size", "title", "archived", "text"),
)
"""What is sorted and narrowed by, as ``column_values`` gives it."""
_ALL = (*COLUMNS, "folder", "settled", "data", "crc", "trace", "trace_crc")
_INSERT = (
    f"INSERT INTO sessions (id, folded, {', '.join(_ALL)})"
    f" VALUES ({', '.join('?' * (2 + len(_ALL)))})"
)
_UPDATE = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _ALL)} WHERE row = ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SessionMetadata).decode
_members = msgspec.structs.asdict


class _Stored(SessionMetadata, frozen=True, kw_only=True, omit_defaults=True):
    """What a list shows, without what most sessions have in common."""


class Total(msgspec.Struct, array_like=True):
    """How many rows there are, and all their checksums in one."""

    count: int = 0
    crc: int = 0


class Writing:
    """What one transaction writes. ``total`` goes with it."""

    def __init__(self, connection: Connection, total: Total) -> None:
        self.total = total
        self._connection = connection
        self._rows: set[int] = set()

    def put(self, update: IndexUpdate) -> bool:
        """Write what a look found out; False if others changed the row since."""
        row = update.row
        meta = row.meta
        execute = self._connection.execute
        found = execute(
            "SELECT row, crc, trace_crc FROM sessions WHERE id = ?", (meta.session_id,)
        ).fetchone()
        number, version = (found[0], version_of(*found[1:])) if found else (None, 0)
        if version != update.version:
            return False
        data, trace = stored(meta), _encode(row.trace)
        columns = (
            *column_values(meta),
            row.trace.folder,
            row.trace.is_settled,
            data,
            crc32(data),
            trace,
            crc32(trace),
        )
        if number is None:
            added = execute(_INSERT, (meta.session_id, fold_id(meta.session_id), *columns))
            number = added.lastrowid or 0
            self.total.count += 1
        else:
            execute(_UPDATE, (*columns, number))
            execute("DELETE FROM labels WHERE row = ?", (number,))
        self.total.crc ^= version ^ version_of(crc32(data), crc32(trace))
        self._rows.add(number)
        self._put_rest(number, update)
        return True

    def remove(self, id: str) -> None:
        """Forget a session, if it is known."""
        from holdfast.catalog.sqlite import search_tables

        execute = self._connection.execute
        query = "SELECT row, crc, trace_crc FROM sessions WHERE id = ?"
        found = execute(query, (id,)).fetchone()
        if found is None:
            return
        number, *crcs = found
        self._rows.add(number)
        for table in ("sessions", "labels", "folds"):
            execute(f"DELETE FROM {table} WHERE row = ?", (number,))
        search_tables.forget(self._connection, number)
        self.total.count -= 1
        self.total.crc ^= version_of(*crcs)

    def finish(self) -> None:
        """Let go of the figures of what was written."""
        forget_figures(self._connection, self._rows)

    def _put_rest(self, number: int, update: IndexUpdate) -> None:
        from holdfast.catalog.sqlite import search_tables

        meta = update.row.meta
        crc = fold_crc(number, update.state, update.tally)
        values = (update.state, update.tally, crc, number)
        changed = "UPDATE folds SET state = ?, tally = ?, crc = ? WHERE row = ?"
        # No REPLACE: for that SQLite sets a savepoint, for which the full-text table writes itself
        # to the file.
        if not self._connection.execute(changed, values).rowcount:
            added = "INSERT INTO folds (state, tally, crc, row) VALUES (?, ?, ?, ?)"
            self._connection.execute(added, values)
        place = (clamped(meta.updated_at), meta.session_id, number)
        labels = [(tag, *place) for tag in label_keys(meta)]
        self._connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)
        if update.whole:
            search_tables.forget(self._connection, number)
        if update.events:
            search_tables.add(self._connection, number, update.events)


def reprice(connection: Connection, total: Total, prices: Prices | None) -> None:
    """Compute every session's cost anew, within the caller's transaction."""
    from holdfast.catalog._prices import Prices, cost_of
    from holdfast.catalog._tally import Tally

    prices = Prices() if prices is None else prices
    query = (
        "SELECT s.row, s.data, s.crc, s.trace_crc, f.tally FROM sessions s"
        " JOIN folds f ON f.row = s.row WHERE length(f.tally)"
    )
    changes = []
    for row, data, crc, trace_crc, tally in connection.execute(query):
        if not isinstance(data, bytes) or crc32(data) != crc:
            raise IndexDamaged("the row of a session")
        meta = _decode(data)
        try:
            cost = cost_of(Tally.from_bytes(tally), prices)
        except InvalidData:
            continue  # of another version: it is read anew when its log goes on
        if cost != meta.cost:
            priced = msgspec.structs.replace(meta, cost=cost)
            new = stored(priced)
            total.crc ^= version_of(crc, trace_crc) ^ version_of(crc32(new), trace_crc)
            changes.append((new, crc32(new), cost_key(priced), row))
    connection.executemany("UPDATE sessions SET data = ?, crc = ?, cost = ? WHERE row = ?", changes)


def cost_key(meta: SessionMetadata) -> int:
    """What the column of that name has."""
    return int(SORTS["cost"](meta))


def column_values(meta: SessionMetadata) -> tuple[Any, ...]:
    """What is kept of a session to sort and to narrow by, in the order of ``COLUMNS``."""
    return (
        clamped(meta.updated_at),
        key_of(meta.agent_id),
        key_of(meta.model),
        key_of(meta.parent),
        key_of(meta.cwd),
        meta.status,
        clamped(meta.created_at),
        clamped(meta.message_count),
        clamped(meta.total_tokens),
        cost_key(meta),
        clamped(meta.size_bytes),
        str(SORTS["title"](meta)).encode(),
        meta.archived,
        text_of(meta).encode(),
    )


def label_keys(meta: SessionMetadata) -> list[bytes]:
    """Return the tags that a session is found by."""
    return [key_of(tag) or b"" for tag in {*meta.tags, *meta.auto_tags}]


def stored(meta: SessionMetadata) -> bytes:
    """What a row has of a session."""
    return _encode(_Stored(**_members(meta)))


def version_of(crc: int, trace_crc: int) -> int:
    """What tells a row from what it was before."""
    # Never 0, which stands for a row that is not there.
    return (crc << 32 | trace_crc) or 1


def fold_crc(number: int, state: bytes, tally: bytes) -> int:
    """The checksum of what is kept beside a row."""
    return crc32(tally, crc32(state, number & 0xFFFFFFFF))


def clamped(time_ms: int) -> int:
    """A time that fits a column: a foreign log may name any."""
    return max(-_INT64_MAX, min(time_ms, _INT64_MAX))


def key_of(text: str | None) -> bytes | None:
    """A text as the database compares it: byte by byte, whatever is in it."""
    return None if text is None else text.encode("utf-8", "surrogatepass")
