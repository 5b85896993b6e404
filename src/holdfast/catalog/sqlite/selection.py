"""The question to the database for one page of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.catalog._filter import EVERYTHING, Filter
from holdfast.catalog._orders import NEWEST, Order, Place, folded

__all__ = ["selection"]

_INT64_MAX = (1 << 63) - 1


def selection(
    wanted: Filter,
    after: Place | None,
    tags: Sequence[str] | None = None,
    order: Order = NEWEST,
) -> tuple[str, list[Any]]:
    """The statement and its values: what a page needs of at least the rows that fit.

    ``tags`` are those of the filter in the order in which they are best looked at. The last value
    is missing: how many rows. The first column is what they are sorted by.

    In the order of a list, by an index of the table. What the database cannot know, such as
    whether a writer lives, is for the caller to look at.
    """
    tags = sorted(wanted.tags) if tags is None else tags
    if wanted.text or (order.name != "updated" and wanted != EVERYTHING):
        return _narrow(wanted, after, tags, order)
    demands = _Demands()
    source, place = "sessions s", "s"
    if tags:
        source, place = "labels l CROSS JOIN sessions s ON s.row = l.row", "l"
        demands.add("l.tag = ?", _key(tags[0]))
    elif order.name != "updated":
        source = f"sessions s INDEXED BY by_{order.name}"
    for tag in tags[1:]:
        demands.add(
            "EXISTS (SELECT 1 FROM labels o WHERE o.tag = ? AND o.updated = s.updated"
            " AND o.id = s.id)",
            _key(tag),
        )
    demands.add_columns(wanted, "s.")
    demands.add_times(wanted, f"{place}.")
    demands.add_place(after, order, f"{place}.")
    arranged = _arranged(order, f"{place}.")
    query = f"SELECT {_columns(order)} FROM {source}{demands.where}{arranged} LIMIT ?"
    return query, demands.values


def _narrow(
    wanted: Filter, after: Place | None, tags: Sequence[str], order: Order
) -> tuple[str, list[Any]]:
    """By an index that has all that is asked for: whatever that is, no row is read in vain."""
    demands = _Demands()
    for word in wanted.text:
        demands.add("instr(text, ?) > 0", word.encode())
    for tag in tags:
        # At least those with the tag: each stands on a line of its own.
        demands.add("instr(text, ?) > 0", f"\n{folded(tag)}\n".encode())
    demands.add_columns(wanted, "")
    demands.add_times(wanted, "")
    demands.add_place(after, order, "")
    found = f"SELECT row FROM sessions INDEXED BY by_text{demands.where}{_arranged(order, '')}"
    query = (
        f"SELECT {_columns(order)} FROM ({found} LIMIT ?) n"
        f" CROSS JOIN sessions s ON s.row = n.row{_arranged(order, 's.')}"
    )
    return query, demands.values


class _Demands:
    """Conditions with their values."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._conditions: list[str] = []

    def add(self, condition: str, *values: Any) -> None:
        self._conditions.append(condition)
        self.values.extend(values)

    def add_columns(self, wanted: Filter, table: str) -> None:
        for column, value in (
            ("agent", wanted.agent_id),
            ("model", wanted.model),
            ("parent", wanted.parent),
            ("cwd", wanted.cwd),
        ):
            if value is not None:
                self.add(f"{table}{column} = ?", _key(value))
        if wanted.status is not None:
            # Whether one that runs is interrupted is seen only now.
            kinds = ["interrupted", "running"]
            kinds = kinds if wanted.status == "interrupted" else [wanted.status]
            self.add(f"{table}status IN ({', '.join('?' * len(kinds))})", *kinds)
        if wanted.archived is not None:
            self.add(f"{table}archived = ?", wanted.archived)

    def add_times(self, wanted: Filter, table: str) -> None:
        if wanted.since is not None:
            self.add(f"{table}updated >= ?", _clamped(wanted.since))
        if wanted.until is not None:
            self.add(f"{table}updated <= ?", _clamped(wanted.until))

    def add_place(self, after: Place | None, order: Order, table: str) -> None:
        if after is not None:
            key = _key(after[0]) if isinstance(after[0], str) else _clamped(after[0])
            sign = "<" if order.descending else ">"
            self.add(f"({table}{order.name}, {table}id) {sign} (?, ?)", key, after[1])

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""


def _columns(order: Order) -> str:
    return f"s.{order.name}, s.id, s.data, s.crc, s.settled"


def _arranged(order: Order, table: str) -> str:
    way = "DESC" if order.descending else "ASC"
    return f" ORDER BY {table}{order.name} {way}, {table}id {way}"


def _clamped(time_ms: int) -> int:
    return max(-_INT64_MAX, min(time_ms, _INT64_MAX))


def _key(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
