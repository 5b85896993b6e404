"""Sessions that come from one another, as a graph to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.apps.shown.tree import forest
from holdfast.errors import HoldfastError
from holdfast.model import is_id

if TYPE_CHECKING:
    from holdfast.library import Holdfast
    from holdfast.model import SessionMetadata

__all__ = ["Edge", "Family", "Member", "read_family"]

_MEMBERS_MAX = 200
_ROW = 64
_COLUMN = 24
_LEFT = 20
_DEPTH_MAX = 8


class Member(NamedTuple):
    """One session of the family and where its point is drawn."""

    row: SessionMetadata
    x: int
    y: int
    at: int | None
    """The last event that it shares with its parent."""
    is_here: bool


class Edge(NamedTuple):
    """The path from a parent to its child, as SVG writes it."""

    path: str


class Family(NamedTuple):
    """The graph."""

    members: list[Member]
    edges: list[Edge]
    width: int
    height: int
    is_cut: bool


def read_family(hf: Holdfast, id: str) -> Family:
    """Every session that comes from the same first one, while there is room. Raises NotFound."""
    rows, is_cut = _rows(hf, id)
    parents = {row.session_id: row.parent for row in rows}
    depths: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    members, edges = [], []
    for index, (_, row) in enumerate(forest(rows)):
        parent = parents.get(row.session_id)
        depth = depths.get(parent or "", -1) + 1
        depths[row.session_id] = depth
        x, y = _LEFT + min(depth, _DEPTH_MAX) * _COLUMN, index * _ROW + _ROW // 2
        places[row.session_id] = (x, y)
        if parent in places:
            edges.append(Edge(_path(places[parent or ""], (x, y))))
        members.append(Member(row, x, y, _forked_at(hf, row), row.session_id == id))
    width = max(member.x for member in members) + _LEFT
    return Family(members, edges, width, len(members) * _ROW, is_cut)


def _rows(hf: Holdfast, id: str) -> tuple[list[SessionMetadata], bool]:
    first = _first(hf, id)
    found = {first.session_id: first}
    waiting = [first.session_id]
    while waiting and len(found) < _MEMBERS_MAX:
        for row in hf.list(_MEMBERS_MAX, parent=waiting.pop(0)):
            if row.session_id not in found:
                found[row.session_id] = row
                waiting.append(row.session_id)
    rows = list(found.values())[:_MEMBERS_MAX]
    if all(row.session_id != id for row in rows):
        rows[-1] = found.get(id) or hf.info(id)  # whoever looks at it, sees it
    return rows, bool(waiting) or len(found) > _MEMBERS_MAX


def _first(hf: Holdfast, id: str) -> SessionMetadata:
    """The oldest of the line that is still there; hostile data may claim a circle."""
    row, met = hf.info(id), {id}
    while row.parent is not None and is_id(row.parent) and row.parent not in met:
        met.add(row.parent)
        try:
            row = hf.info(row.parent)
        except HoldfastError:
            break
    return row


def _forked_at(hf: Holdfast, row: SessionMetadata) -> int | None:
    if row.parent is None:
        return None
    try:
        event = next(hf.events(row.session_id, types=("forked",), reverse=True), None)
        found = None if event is None else event.data.get("seq")
    except HoldfastError:
        return None
    return found if isinstance(found, int) else None


def _path(parent: tuple[int, int], child: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = parent, child
    if x1 == x2:
        return f"M{x1} {y1}V{y2}"
    return f"M{x1} {y1}V{y2 - 14}Q{x1} {y2} {x1 + 14} {y2}H{x2}"
