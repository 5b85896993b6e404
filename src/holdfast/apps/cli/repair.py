"""``holdfast repair``: a whole log in the place of a damaged one."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import complete_id, json_option, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted, size
from holdfast.errors import UsageError
from holdfast.model import Gap

__all__ = ["command"]


@click.command(
    "repair",
    short_help="Write a whole log in the place of a damaged one.",
    epilog="""\b
Examples:
  holdfast verify trip-planner
  holdfast repair trip-planner
  holdfast repair --agent assistant
""",
)
@click.argument("id", metavar="[ID]", required=False, shell_complete=complete_id)
@click.option(
    "--agent", metavar="AGENT", help="The documents of this agent, in the place of a session."
)
@json_option
@store_option
@click.pass_obj
def command(app: App, id: str | None, *, agent: str | None, as_json: bool) -> None:
    """Write a whole log in the place of a damaged one, from everything in it that is whole.

    The old bytes are kept in the session's quarantine. All other events keep their numbers. A
    session that is not damaged is left alone; one that a program has open is refused.

    With --agent it is an agent's documents (what it remembers, may do and goes on with, states of
    plugins): those that cannot be read are put into its quarantine and begun anew.
    """
    if (id is None) == (agent is None):
        raise UsageError(
            "repair takes a session or an agent", remedy="Name a session, or give --agent."
        )
    if agent is not None:
        _repair_agent(app, agent, as_json=as_json)
        return
    assert id is not None
    session_id = choose(app.library, id)
    app.library.state(session_id)  # a newer format is refused before anything is touched
    gaps = app.library.repair(session_id)
    kept = _quarantine(app, session_id) if gaps else None
    if as_json:
        from holdfast.library.answers.store import RepairedSession

        app.out.json(RepairedSession(session_id=session_id, gaps=gaps, quarantine=kept))
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


def _repair_agent(app: App, agent: str, *, as_json: bool) -> None:
    done = app.library.agents.repair(agent)
    if as_json:
        from holdfast.library.answers.store import RepairedAgent

        app.out.json(RepairedAgent(agent_id=agent, documents=done))
        return
    if not done:
        app.out.line("There is nothing to repair: what ", Span(agent, "name"), " has is whole.")
        return
    app.out.line(Span("repaired ", "good"), Span(agent, "name"))
    for what in done.values():
        app.out.text(f"{what}.")


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
