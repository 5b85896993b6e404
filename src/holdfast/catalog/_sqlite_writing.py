"""Writing the rows of the SQLite index, and keeping its sums."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from holdfast.catalog._index import IndexDamaged
from holdfast.catalog._sums import add_to_sums, place_of, sum_blocks, weight
from holdfast.errors import InvalidData
from holdfast.model import SessionMetadata, fold_id

if TYPE_CHECKING:
    from holdfast.catalog._index import Update
    from holdfast.catalog._prices import Prices
    from holdfast.storage._sqlite import Connection

__all__ = ["Total", "Writing", "clamped", "fold_crc", "key_of", "reprice", "stored", "version_of"]

_INT64_MAX = (1 << 63) - 1
_ORDERS = ("agent", "model", "parent", "cwd", "status")

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
        self._places: Counter[int] = Counter()
        self._has_words = False

    def put(self, update: Update) -> bool:
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
            clamped(meta.updated_at),
            key_of(meta.agent_id),
            key_of(meta.model),
            key_of(meta.parent),
            key_of(meta.cwd),
            meta.status,
            meta.archived,
            row.trace.folder,
            row.trace.is_settled,
            data,
            crc32(data),
            trace,
            crc32(trace),
        )
        if number is None:
            added = execute(
                "INSERT INTO sessions (id, folded, updated, agent, model, parent, cwd, status,"
                " archived, folder, settled, data, crc, trace, trace_crc)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (meta.session_id, fold_id(meta.session_id), *columns),
            )
            number = added.lastrowid or 0
            self.total.count += 1
        else:
            self._count_places(number, -1)
            execute(
                "UPDATE sessions SET updated = ?, agent = ?, model = ?, parent = ?, cwd = ?,"
                " status = ?, archived = ?, folder = ?, settled = ?, data = ?, crc = ?, trace = ?,"
                " trace_crc = ? WHERE row = ?",
                (*columns, number),
            )
            execute("DELETE FROM labels WHERE row = ?", (number,))
        self.total.crc ^= version ^ version_of(crc32(data), crc32(trace))
        tags = [key_of(tag) or b"" for tag in {*meta.tags, *meta.auto_tags}]
        self._add_places(number, columns[: 1 + len(_ORDERS)], tags, 1)
        self._put_rest(number, update, tags)
        return True

    def remove(self, id: str) -> None:
        """Forget a session, if it is known."""
        from holdfast.catalog import _derived

        execute = self._connection.execute
        query = "SELECT row, crc, trace_crc FROM sessions WHERE id = ?"
        found = execute(query, (id,)).fetchone()
        if found is None:
            return
        number, *crcs = found
        self._count_places(number, -1)
        for table in ("sessions", "labels", "folds"):
            execute(f"DELETE FROM {table} WHERE row = ?", (number,))  # noqa: S608 - names of ours
        _derived.forget(self._connection, number)
        self.total.count -= 1
        self.total.crc ^= version_of(*crcs)

    def finish(self) -> None:
        """Bring all sums up to what was written."""
        add_to_sums(self._connection, self._places)
        self._places.clear()
        if self._has_words:
            sum_blocks(self._connection)

    def _put_rest(self, number: int, update: Update, tags: list[bytes]) -> None:
        from holdfast.catalog import _derived

        meta = update.row.meta
        crc = fold_crc(number, update.state, update.tally)
        values = (update.state, update.tally, crc, number)
        changed = "UPDATE folds SET state = ?, tally = ?, crc = ? WHERE row = ?"
        # No REPLACE: for that SQLite sets a savepoint, see ``_sums``.
        if not self._connection.execute(changed, values).rowcount:
            added = "INSERT INTO folds (state, tally, crc, row) VALUES (?, ?, ?, ?)"
            self._connection.execute(added, values)
        place = (clamped(meta.updated_at), meta.session_id, number)
        labels = [(tag, *place) for tag in tags]
        self._connection.executemany("INSERT INTO labels VALUES (?, ?, ?, ?)", labels)
        if update.whole:
            _derived.forget(self._connection, number)
        if update.events:
            _derived.add(self._connection, number, update.events)
            self._has_words = True

    def _count_places(self, number: int, sign: int) -> None:
        query = "SELECT updated, agent, model, parent, cwd, status FROM sessions WHERE row = ?"
        columns = self._connection.execute(query, (number,)).fetchone()
        query = "SELECT tag FROM labels WHERE row = ?"
        tags = [tag for (tag,) in self._connection.execute(query, (number,))]
        self._add_places(number, columns, tags, sign)

    def _add_places(self, number: int, columns: Any, tags: list[bytes], sign: int) -> None:
        updated, *values = columns
        share = sign * weight(number, updated)
        places = self._places
        places[place_of("time")] += share
        for order, value in zip(_ORDERS, values, strict=True):
            if value is not None:
                places[place_of(order, value)] += share
        for tag in tags:
            places[place_of("tag", tag)] += share


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
            new = stored(msgspec.structs.replace(meta, cost=cost))
            total.crc ^= version_of(crc, trace_crc) ^ version_of(crc32(new), trace_crc)
            changes.append((new, crc32(new), row))
    connection.executemany("UPDATE sessions SET data = ?, crc = ? WHERE row = ?", changes)


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
