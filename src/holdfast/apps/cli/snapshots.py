"""``holdfast snapshots``: the stored states from which a session opens quickly."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import json_option, session_argument, store_option
from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import ago, day_time
from holdfast.session import now_ms

__all__ = ["command"]

_COLUMNS = (Column("SEQ", right=True), Column("TAKEN"), Column("AGO"), Column("STATE"))


@click.command(
    "snapshots",
    short_help="List the snapshots of a session.",
    epilog="""\b
Examples:
  holdfast snapshots -
  holdfast snapshots trip-planner --json
""",
)
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, id: str, *, as_json: bool) -> None:
    """List the snapshots of a session, newest first.

    A snapshot only makes opening fast. Every event is a restore point, with or without one: see
    `holdfast show ID --state --at SEQ`. One that is not whole is passed over.
    """
    session_id = choose(app.library, id)
    found = app.library.snapshots(session_id)
    if as_json:
        from holdfast.library.answers.events import SessionSnapshots

        app.out.json(SessionSnapshots(session_id=session_id, snapshots=found))
        return
    if not found:
        app.err.line(f"{session_id} has no snapshots; it is read from its first event.")
        return
    now = now_ms()
    app.out.table(
        _COLUMNS,
        [
            [
                str(one.seq),
                day_time(one.taken_at),
                Span(ago(one.taken_at, now), "faint"),
                Span("whole", "good") if one.whole else Span("not whole", "bad"),
            ]
            for one in found
        ],
    )
