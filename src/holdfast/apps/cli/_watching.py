"""A list of sessions that goes on: what is added, changed or removed, by whichever process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._screen import Span
from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.catalog import Page

__all__ = ["watch_sessions"]

_INTERVAL_S = 0.5
_STYLES = {"added": "good", "changed": "", "removed": "bad"}

Change = tuple[str, SessionMetadata]


def watch_sessions(
    app: App,
    ask: Callable[[], Page],
    draw: Callable[[Sequence[SessionMetadata]], None],
    *,
    as_json: bool,
) -> None:
    """Show what changes until the user has seen enough.

    On a terminal the list is drawn again; otherwise each change is a line.
    """
    app.stop_paging()  # this has no end that a pager could wait for
    redraws = app.out.is_terminal and not as_json
    try:
        known: dict[str, SessionMetadata] | None = None
        while True:
            rows = ask()
            changes = [] if known is None else list(_changes(app, known, rows))
            if redraws and (known is None or changes):
                app.out.flush()
                click.clear()
                draw(rows)
                app.out.line(Span("watching; Ctrl-C ends it", "faint"))
            elif not redraws:
                for change in changes:
                    _tell(app, change, as_json=as_json)
            app.out.flush()
            known = {row.session_id: row for row in rows}
            time.sleep(_INTERVAL_S)
    except KeyboardInterrupt:
        return


def _changes(
    app: App, known: dict[str, SessionMetadata], rows: Sequence[SessionMetadata]
) -> Iterator[Change]:
    """What is not as it was, the oldest first."""
    now = {row.session_id for row in rows}
    for id, row in known.items():
        # One that only gave way to newer ones on the page is still there.
        if id not in now and not app.library.exists(id):
            yield "removed", row
    for row in reversed(rows):
        before = known.get(row.session_id)
        if before is None:
            yield "added", row
        elif before != row:
            yield "changed", row


def _tell(app: App, change: Change, *, as_json: bool) -> None:
    kind, row = change
    if as_json:
        app.out.json_line({"change": kind, "session": row})
        return
    state = row.status if row.state == "ok" else row.state
    app.out.line(
        Span(f"{kind:8}", _STYLES[kind]),
        Span(row.session_id, "name"),
        f"  {row.message_count} msgs  {state}  {row.title or ''}",
    )
