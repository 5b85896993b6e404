"""``holdfast fork``: a new session from any point of another."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import at_option, choose, new_options, tell_made
from holdfast.apps.cli._options import json_option, session_argument, store_option

__all__ = ["command"]


@click.command(
    "fork",
    short_help="Make a new session from any point of another.",
    epilog="""\b
Examples:
  holdfast fork trip-planner
  holdfast fork trip-planner --at 12 --title "By train"
  holdfast chat --session "$(holdfast fork - --json | jq -r .session_id)"
""",
)
@session_argument
@at_option()
@new_options
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    /,
    *,
    id: str,
    at: int | None,
    new_id: str | None,
    title: str | None,
    as_json: bool,
) -> None:
    """Make a new session that begins with the events of another, up to --at.

    The other one stays as it is, and may be open. `holdfast show ID --events` shows the numbers of
    its events.
    """
    parent = choose(app.library, id)
    made = app.library.fork(parent, at, new_id=new_id, title=title)
    tell_made(app, made, "forked", parent, as_json=as_json)
