"""``holdfast list --trash``: what was deleted and can be brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.apps.cli._screen import Span
from holdfast.apps.shown.page import Column
from holdfast.apps.shown.words import ago, counted, size
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.cli._app import App
    from holdfast.apps.shown.page import Piece

__all__ = ["list_trash"]

_COLUMNS = (
    Column("ID"),
    Column("DELETED"),
    Column("TITLE", flexible=True, least=30),
    Column("SIZE", right=True, spared=True),
)


def list_trash(app: App, limit: int | None, *, as_json: bool) -> None:
    """Show the sessions in the trash, the last deleted first, and say how one comes back."""
    found = app.library.trash()
    shown = found[:limit]
    if as_json:
        names = ("session_id", "title", "deleted_at", "size_bytes")
        app.out.json({"sessions": [{name: getattr(one, name) for name in names} for one in shown]})
        return
    if not found:
        app.err.line(f"The trash of {app.where} is empty.")
        return
    now = now_ms()
    rows: list[list[Piece]] = [
        [
            Span(one.session_id, "name"),
            Span(ago(one.deleted_at, now) if one.deleted_at else "", "faint"),
            one.title or "",
            size(one.size_bytes),
        ]
        for one in shown
    ]
    app.out.table(_COLUMNS, rows)
    if app.out.is_terminal:
        if len(shown) < len(found):
            more = counted(len(found) - len(shown), "session")
            app.err.line(Span(f"and {more} deleted before; all with --all", "faint"))
        app.err.line(Span("One comes back with `holdfast undelete ID`.", "faint"))
