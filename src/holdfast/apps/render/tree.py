"""Sessions as the trees that their forks make. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model import SessionMetadata

__all__ = ["forest"]

# Deeper ones stand below each other, so that the lines still fit on a screen.
_DEPTH_SHOWN_MAX = 10


def forest(rows: Sequence[SessionMetadata]) -> Iterator[tuple[str, SessionMetadata]]:
    """Each row once, below its parent, with the branches to draw before it.

    Rows keep their order among those of one parent. One whose parent is not among the rows stands
    by itself, and so does one of a circle that hostile data claims.
    """
    known = {row.session_id: row for row in rows}
    children: dict[str, list[SessionMetadata]] = {}
    roots = []
    for row in rows:
        if row.parent in known and row.parent != row.session_id:
            children.setdefault(row.parent or "", []).append(row)
        else:
            roots.append(row)
    shown: set[str] = set()
    for row in [*roots, *rows]:
        yield from _tree(row, children, shown)


def _tree(
    root: SessionMetadata, children: dict[str, list[SessionMetadata]], shown: set[str]
) -> Iterator[tuple[str, SessionMetadata]]:
    waiting = [("", "", root)]
    while waiting:
        mark, below, row = waiting.pop()
        if row.session_id in shown:
            continue
        shown.add(row.session_id)
        yield mark, row
        found = [one for one in children.get(row.session_id, []) if one.session_id not in shown]
        deep = len(below) >= 3 * _DEPTH_SHOWN_MAX
        for index, child in reversed(list(enumerate(found))):
            last = index == len(found) - 1
            edge, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
            waiting.append((below + edge, below if deep else below + trunk, child))
