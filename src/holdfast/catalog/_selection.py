"""The question to the database for one page of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.catalog._filter import Filter, Place

__all__ = ["selection"]

_INT64_MAX = (1 << 63) - 1


def selection(
    wanted: Filter, after: Place | None, tags: Sequence[str] | None = None
) -> tuple[str, list[Any]]:
    """The statement and its values: what a page needs of at least the rows that fit.

    ``tags`` are those of the filter in the order in which they are best looked at.

    In the order of a list, by an index of the table. What the database cannot know, such as
    whether a writer lives, is for the caller to look at.
    """
    tags = sorted(wanted.tags) if tags is None else tags
    conditions: list[str] = []
    values: list[Any] = []

    def demand(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    source, order = "sessions s", "s"
    if tags:
        source, order = "labels l CROSS JOIN sessions s ON s.row = l.row", "l"
        demand("l.tag = ?", _key(tags[0]))
    for tag in tags[1:]:
        demand(
            "EXISTS (SELECT 1 FROM labels o WHERE o.tag = ? AND o.updated = s.updated"
            " AND o.id = s.id)",
            _key(tag),
        )
    for column, value in (
        ("agent", wanted.agent_id),
        ("model", wanted.model),
        ("parent", wanted.parent),
        ("cwd", wanted.cwd),
    ):
        if value is not None:
            demand(f"s.{column} = ?", _key(value))
    if wanted.status is not None:
        # Whether one that runs is interrupted is seen only now.
        kinds = ["interrupted", "running"] if wanted.status == "interrupted" else [wanted.status]
        demand(f"s.status IN ({', '.join('?' * len(kinds))})", *kinds)
    if wanted.archived is not None:
        demand("s.archived = ?", wanted.archived)
    if wanted.since is not None:
        demand(f"{order}.updated >= ?", _clamped(wanted.since))
    if wanted.until is not None:
        demand(f"{order}.updated <= ?", _clamped(wanted.until))
    if after is not None:
        demand(f"({order}.updated, {order}.id) < (?, ?)", *after)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = "s.updated, s.id, s.data, s.crc, s.settled"
    newest_first = f"{order}.updated DESC, {order}.id DESC"
    query = f"SELECT {columns} FROM {source}{where} ORDER BY {newest_first}"  # noqa: S608 - ours
    return query, values


def _clamped(time_ms: int) -> int:
    return max(-_INT64_MAX, min(time_ms, _INT64_MAX))


def _key(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
