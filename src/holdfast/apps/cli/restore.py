"""``holdfast restore``: go back to an earlier moment of a session."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import at_option, choose, id_option, tell_made
from holdfast.apps.cli._options import json_option, session_argument, store_option

__all__ = ["command"]


@click.command(
    "restore",
    short_help="Go back to an earlier moment of a session.",
    epilog="""\b
Examples:
  holdfast restore trip-planner --at 12
  holdfast chat                       goes on from there
""",
)
@session_argument
@at_option(required=True)
@id_option
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, id: str, at: int, new_id: str | None, as_json: bool) -> None:
    """Make a new session of the events up to --at, with which the agent goes on.

    What came after stays in the session as it is. One that another program has open is refused.
    """
    parent = choose(app.library, id)
    made = app.library.restore(parent, at, new_id=new_id)
    tell_made(app, made, "went back in", parent, as_json=as_json)
    agent = app.library.state(made).agent_id
    if agent and not as_json:
        app.err.line(f"{agent} goes on with it at the next `holdfast chat`.")
