"""The table of sessions: its columns, and a session as a row of it."""

from __future__ import annotations

from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import ago, counted, price, short

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from holdfast.apps.render.page import Piece
    from holdfast.catalog import Listed
    from holdfast.model import SessionMetadata

COLUMNS = (
    Column("ID"),
    Column("UPDATED", spared=True),
    Column("TITLE", flexible=True, least=30),
    Column("MSGS", right=True, spared=True),
    Column("TOKENS", right=True, optional=True, spared=True),
    Column("COST", right=True, optional=True, spared=True),
    Column("TAGS", flexible=True, optional=True, spared=True),
    Column("TOPICS", flexible=True, optional=True, spared=True),
    Column("STATE", optional=True),
)
_STYLES = {
    "running": "good",
    "waiting": "warning",
    "interrupted": "warning",
    "failed": "bad",
    "damaged": "bad",
    "too_new": "bad",
    "unreadable": "bad",
    "sealed": "warning",
    "archived": "faint",
}


def session_cells(row: SessionMetadata | Listed, now: int, mark: str = "") -> list[Piece]:
    """What the columns say of a session at a time, with a mark before its id."""
    state = row.status if row.state == "ok" else row.state
    if state == "idle" and row.archived:
        state = "archived"
    return [
        Span(mark + row.session_id, "name"),
        Span(ago(row.updated_at, now), "faint"),
        row.title or "",
        str(row.message_count),
        ("~" if row.tokens_estimated else "") + short(row.total_tokens) if row.total_tokens else "",
        price(row.cost),
        ", ".join(row.tags),
        Span(", ".join(row.auto_tags), "faint"),
        Span("" if state == "idle" else state.replace("_", " "), _STYLES.get(state, "")),
    ]


def older(count: int) -> Span:
    """That there are so many more than a list shows."""
    return Span(f"and {counted(count, 'older session')}; all with --all", "faint")
