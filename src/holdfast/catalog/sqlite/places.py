"""Where sessions stand in each order that a list is read in, and the sums that tell if one is gone.

They are kept in the transaction that changes a place; whoever reads an order for the first time
adds up anew. See ``_sums.py`` for what else has sums.
"""

from __future__ import annotations

from zlib import crc32

from holdfast.catalog._faults import IndexDamaged

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from holdfast.storage.sqlite import Connection

__all__ = [
    "MASK",
    "NUMBERS",
    "PLACES",
    "check_place",
    "check_titles",
    "place_of",
    "title_weight",
    "weight",
]

PLACES = 0
"""The kind of these sums in their table."""
MASK = (1 << 31) - 1

# Odd factors: no single bit can change without changing the sum.
_WEIGHT_BY = "(((row & {mask}) * 1000003 + ({key} & {mask}) * 7919 + ({key} >> 31) * 31) & {mask})"
_WEIGHT = _WEIGHT_BY.format(key="updated", mask=MASK)
NUMBERS = ("created", "messages", "tokens", "cost", "size")
"""Orders by a number in a column of that name."""
_BY = {
    "time": f"SELECT sum({_WEIGHT}) FROM sessions INDEXED BY by_time",
    "tag": f"SELECT sum({_WEIGHT}) FROM labels WHERE tag = ?",
    **{
        name: f"SELECT sum({_WEIGHT}) FROM sessions INDEXED BY by_{name} WHERE {name} = ?"
        for name in ("agent", "model", "parent", "cwd", "status")
    },
    **{
        name: f"SELECT sum({_WEIGHT_BY.format(key=name, mask=MASK)}) FROM sessions"
        f" INDEXED BY by_{name}"
        for name in NUMBERS
    },
    "text": f"SELECT sum({_WEIGHT}) FROM sessions INDEXED BY by_text",
}


def weight(row: int, key: int) -> int:
    """What a session adds to the sum of each order it is in; ``key`` is what it is sorted by."""
    return ((row & MASK) * 1000003 + (key & MASK) * 7919 + (key >> 31) * 31) & MASK


def title_weight(row: int, title: bytes) -> int:
    """The same for titles, which the database cannot add up itself."""
    return crc32(title, row & 0xFFFFFFFF)


def place_of(order: str, value: bytes | str | None = None) -> int:
    """Where the sum of an order is kept, or of those with one value in it."""
    data = value.encode() if isinstance(value, str) else value or b""
    return crc32(data, crc32(order.encode()))


def check_place(connection: Connection, order: str, value: bytes | str | None = None) -> None:
    """Raise IndexDamaged unless all sessions are in their places."""
    # One statement sees one state, whoever writes.
    query = f"SELECT ({_BY[order]}), (SELECT total FROM sums WHERE kind = ? AND place = ?)"
    values = () if value is None else (value,)
    found = connection.execute(query, (*values, PLACES, place_of(order, value))).fetchone()
    if (found[0] or 0) != (found[1] or 0):
        raise IndexDamaged(f"the order of sessions by {order}")


def check_titles(connection: Connection) -> None:
    """The same for the order of titles."""
    connection.execute("BEGIN")
    try:
        query = "SELECT row, title FROM sessions INDEXED BY by_title"
        found = sum(title_weight(row, title) for row, title in connection.execute(query))
        query = "SELECT total FROM sums WHERE kind = ? AND place = ?"
        kept = connection.execute(query, (PLACES, place_of("title"))).fetchone()
    except TypeError as error:
        raise IndexDamaged("the order of sessions by title") from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if found != (kept[0] if kept else 0):
        raise IndexDamaged("the order of sessions by title")
