"""``holdfast title``: show or set what a session is called."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import json_option, session_argument, store_option, wait_option
from holdfast.apps.render.page import Span

__all__ = ["command"]


@click.command(
    "title",
    short_help="Show or set the title of a session.",
    epilog="""\b
Examples:
  holdfast title trip-planner
  holdfast title trip-planner "Lisbon in May"
  holdfast title - "What I did today"        the newest session
""",
)
@session_argument
@click.argument("text", metavar="[TEXT]", required=False)
@json_option
@wait_option
@store_option
@click.pass_obj
def command(app: App, id: str, *, text: str | None, as_json: bool) -> None:
    """Show the title of a session, or give it another one.

    Without one of its own a session is called by the first words of the user; an empty TEXT goes
    back to them. A session that another program has open is refused.
    """
    session_id = choose(app.library, id)
    title = app.library.title(session_id, text)
    if as_json:
        from holdfast.library.answers.sessions import SessionTitle

        app.out.json(SessionTitle(session_id=session_id, title=title))
    elif text is None:
        app.out.line(title or "")
    else:
        app.out.line("titled ", Span(session_id, "name"), f"  {title or '(no title)'}")
