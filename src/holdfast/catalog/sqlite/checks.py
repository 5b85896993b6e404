"""Whether what leads to the rows of the SQLite index leads to all of them, looked at once each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._filter import EVERYTHING, Filter
from holdfast.catalog._orders import NEWEST, Order
from holdfast.catalog.sqlite.places import check_place, check_titles
from holdfast.catalog.sqlite.rows import read_row
from holdfast.catalog.sqlite.sums import check_blocks, check_said
from holdfast.catalog.sqlite.writer import COLUMNS, column_values, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.storage.sqlite import Connection

__all__ = ["Checks"]

_CHECKED_MAX = 1000
_TEXTS_MAX = 500


class Checks:
    """What was verified already of the index behind a connection; ``count`` says how many rows."""

    def __init__(self, connection: Connection, count: Callable[[], int]) -> None:
        self._connection = connection
        self._count = count
        self._checked: set[tuple[str, bytes | str | None]] = set()

    def __bool__(self) -> bool:
        """Whether the order of time was looked at, as it is before all others."""
        return bool(self._checked)

    def orders(self, wanted: Filter, order: Order = NEWEST) -> None:
        """See to it that no session is hidden, once for every order that lists are read in.

        Raises IndexDamaged.
        """
        orders: list[tuple[str, bytes | str | None]] = [("time", None)]
        if order.name != "updated":
            orders.append((order.name, None))
        if wanted.text or (order.name != "updated" and wanted != EVERYTHING):
            orders.append(("text", None))
        orders += [("tag", key_of(tag)) for tag in wanted.tags]
        given = (
            ("agent", wanted.agent_id),
            ("model", wanted.model),
            ("parent", wanted.parent),
            ("cwd", wanted.cwd),
        )
        orders += [(name, key_of(value)) for name, value in given if value is not None]
        if wanted.status is not None:
            orders += [("status", status) for status in {wanted.status, "running"}]
        for one in orders:
            if one not in self._checked:
                self._check(*one)
                if len(self._checked) < _CHECKED_MAX:
                    self._checked.add(one)

    def _check(self, order: str, value: bytes | str | None) -> None:
        if order == "title":
            check_titles(self._connection)
            return
        check_place(self._connection, order, value)
        if order == "text":
            self._check_texts()

    def _check_texts(self) -> None:
        """Compare what is narrowed by with the rows that it is of; of many with some."""
        some = ""
        if self._count() > _TEXTS_MAX:
            query = "SELECT min(updated), max(updated) FROM sessions"
            least, most = self._connection.execute(query).fetchone()
            some = f" WHERE updated >= {random.randint(least, most)}"  # noqa: S311 - no secret
        columns = ", ".join(f"t.{name}" for name in COLUMNS)
        query = (
            f"SELECT {columns}, s.id, s.data, s.crc FROM"
            f" (SELECT row, {', '.join(COLUMNS)} FROM sessions INDEXED BY by_text{some}"
            " ORDER BY updated, id LIMIT ?) t CROSS JOIN sessions s ON s.row = t.row"
        )
        for *found, id, data, crc in self._connection.execute(query, (_TEXTS_MAX,)):
            if tuple(found) != column_values(read_row(id, data, crc).meta):
                raise IndexDamaged("what lists are narrowed by")

    def words(self) -> None:
        """The same for the tables of the search. Raises IndexDamaged."""
        self._connection.execute("BEGIN")
        try:
            check_said(self._connection)
            check_blocks(self._connection)
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
