"""Statistics that were added up before, kept in the SQLite index: one sum for each block of rows.

What is written about a session lets go of the sum of its block, in the same transaction; whoever
asks next adds that block up again, and no other. So asking costs as much as there are blocks, and
writing costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.catalog._faults import IndexDamaged

if TYPE_CHECKING:
    from holdfast.storage.sqlite import Connection

__all__ = ["FIGURES_TABLE", "block_rows", "forget_figures", "keep_figures", "kept_figures"]

FIGURES_TABLE = """
CREATE TABLE figures (
    block INTEGER NOT NULL, variant TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (block, variant)
) WITHOUT ROWID
"""
_BLOCK_SHIFT = 9
_VARIANTS_MAX = 6
# So many are added up while others wait to write.
_AT_ONCE = 4

Make = Callable[[int], bytes]
"""The sum of a block."""


def block_rows(block: int) -> tuple[int, int]:
    """The first row of a block, and the first after it."""
    return block << _BLOCK_SHIFT, (block + 1) << _BLOCK_SHIFT


def forget_figures(connection: Connection, rows: Iterable[int]) -> None:
    """Let go of the sums that these rows are in, within the caller's transaction."""
    for block in {row >> _BLOCK_SHIFT for row in rows}:
        connection.execute("DELETE FROM figures WHERE block = ?", (block,))


def keep_figures(connection: Connection, variant: str, make: Make) -> None:
    """Add up what is missing, a few blocks in each transaction."""
    missing = sorted(_blocks(connection) - _kept(connection, variant).keys())
    if missing and len(_variants(connection)) >= _VARIANTS_MAX:
        # Of another time zone, of other prices: nobody may ever ask for them again.
        connection.execute("DELETE FROM figures WHERE variant != ?", (variant,))
    for start in range(0, len(missing), _AT_ONCE):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for block in missing[start : start + _AT_ONCE]:
                data = make(block)
                connection.execute(
                    "DELETE FROM figures WHERE block = ? AND variant = ?", (block, variant)
                )
                connection.execute(
                    "INSERT INTO figures VALUES (?, ?, ?, ?)",
                    (block, variant, data, _crc(block, variant, data)),
                )
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def kept_figures(connection: Connection, variant: str, make: Make) -> Iterator[tuple[int, bytes]]:
    """Every block with its sum, within the caller's transaction. Raises IndexDamaged."""
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


def _variants(connection: Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT DISTINCT variant FROM figures")}


def _crc(block: int, variant: str, data: bytes) -> int:
    return crc32(data, crc32(f"{block} {variant}".encode()))
