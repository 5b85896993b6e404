"""``holdfast repair``: a whole log in the place of a damaged one."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choosing import choose
from holdfast.apps.cli._options import json_option, session_argument, store_option
from holdfast.apps.cli._screen import Span
from holdfast.apps.shown.words import counted, size
from holdfast.model import Gap

__all__ = ["command"]


@click.command(
    "repair",
    short_help="Write a whole log in the place of a damaged one.",
    epilog="""\b
Examples:
  holdfast verify trip-planner
  holdfast repair trip-planner
""",
)
@session_argument
@json_option
@store_option
@click.pass_obj
def command(app: App, id: str, *, as_json: bool) -> None:
    """Write a whole log in the place of a damaged one, from everything in it that is whole.

    The old bytes are kept in the session's quarantine. All other events keep their numbers. A
    session that is not damaged is left alone; one that a program has open is refused.
    """
    session_id = choose(app.library, id)
    app.library.state(session_id)  # a newer format is refused before anything is touched
    gaps = app.library.repair(session_id)
    kept = _quarantine(app, session_id) if gaps else None
    if as_json:
        app.out.json({"session_id": session_id, "gaps": gaps, "quarantine": kept})
        return
    if kept is None:
        app.out.line("There is nothing to repair: ", Span(session_id, "name"), " is whole.")
        return
    lost = sum(gap.last_seq - gap.first_seq + 1 for gap in gaps)
    app.out.line(
        Span("repaired ", "good"), Span(session_id, "name"), f": {counted(lost, 'event')} lost"
    )
    for gap in gaps:
        app.out.text(_explain(gap))
    app.out.line(f"  The old bytes are kept in {kept}")


def _explain(gap: Gap) -> str:
    where = f"{size(gap.size)} at byte {gap.offset:,}"
    count = gap.last_seq - gap.first_seq + 1
    if gap.at_end:
        return f"At least {counted(count, 'event')} from {gap.first_seq} on are lost ({where})."
    if count <= 0:
        return f"{where} were no event; none is lost."
    if count == 1:
        return f"Event {gap.first_seq} is lost ({where})."
    return f"Events {gap.first_seq} to {gap.last_seq} are lost ({where})."


def _quarantine(app: App, session_id: str) -> str:
    return f"{app.library.location(session_id)}/quarantine"
