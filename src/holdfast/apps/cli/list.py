"""``holdfast list``: the sessions, newest first."""

from __future__ import annotations

from datetime import datetime

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.cli._screen import Column, Piece, Span
from holdfast.apps.cli._when import When
from holdfast.apps.cli._words import ago, counted, short
from holdfast.model import SessionMetadata
from holdfast.session import now_ms

__all__ = ["command"]

_LIMIT = 50
_COLUMNS = (
    Column("ID"),
    Column("UPDATED", spared=True),
    Column("TITLE", flexible=True),
    Column("MSGS", right=True, spared=True),
    Column("TOKENS", right=True, optional=True, spared=True),
    Column("TAGS", flexible=True, optional=True, spared=True),
    Column("STATE", optional=True),
)
_STYLES = {
    "running": "good",
    "waiting": "warning",
    "interrupted": "warning",
    "damaged": "bad",
    "too_new": "bad",
    "unreadable": "bad",
    "sealed": "warning",
}


@click.command(
    "list",
    short_help="List the sessions, newest first.",
    epilog="""\b
Examples:
  holdfast list
  holdfast list --tag travel --since 3d
  holdfast list --since 2026-05-01 --until 2026-05-31 --limit 0
  holdfast list --json | jq -r '.sessions[].session_id'
""",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_LIMIT,
    show_default=True,
    metavar="N",
    help="At most so many; 0 for all.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeatable.")
@click.option("--since", type=When(), metavar="WHEN", help="Changed since: 2026-05-01, 3d, 2h.")
@click.option("--until", type=When(end=True), metavar="WHEN", help="Changed until then.")
@click.option("--agent", metavar="ID", help="Only sessions of this agent.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    /,
    *,
    limit: int,
    tags: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """List the sessions, newest first.

    The state is told where it matters: running, waiting, interrupted, damaged, unreadable, sealed,
    or written by a newer version.
    """
    rows = app.library.list(limit or None, tags, since, until, agent)
    if as_json:
        app.out.json({"sessions": rows})
        return
    if rows:
        now = now_ms()
        app.out.table(_COLUMNS, [_cells(row, now) for row in rows])
    filtered = bool(tags or since or until or agent)
    _tell_rest(app, len(rows), limit, filtered=filtered)


def _cells(row: SessionMetadata, now: int) -> list[Piece]:
    state = row.status if row.state == "ok" else row.state
    return [
        Span(row.session_id, "name"),
        Span(ago(row.updated_at, now), "faint"),
        row.title or "",
        str(row.message_count),
        short(row.total_tokens) if row.total_tokens else "",
        Span(", ".join(row.tags), "faint"),
        Span("" if state == "idle" else state.replace("_", " "), _STYLES.get(state, "")),
    ]


def _tell_rest(app: App, shown: int, limit: int, *, filtered: bool) -> None:
    """Where nothing or not everything is shown, say why."""
    if filtered:
        if not shown:
            app.err.line(f"No session in {app.where} fits.")
        return
    if not shown:
        app.err.line(f"There are no sessions in {app.where} yet.")
        app.err.line(Span("  They appear with the first event that a program records:", "faint"))
        app.err.line(Span('  holdfast.open().session("my-session").user("Hello")', "faint"))
        return
    more = sum(1 for _ in app.library.store.entries()) - shown if shown == limit else 0
    if more > 0 and app.out.is_terminal:
        app.err.line(Span(f"and {counted(more, 'older session')}; all with --limit 0", "faint"))
