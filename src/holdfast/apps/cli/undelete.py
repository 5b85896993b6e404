"""``holdfast undelete``: sessions back from the trash."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose_deleted
from holdfast.apps.cli._options import sessions_argument, store_option
from holdfast.apps.render.page import Span

__all__ = ["command"]


@click.command(
    "undelete",
    short_help="Bring sessions back from the trash.",
    epilog="""\b
Examples:
  holdfast undelete trip-planner
  holdfast undelete -              the one deleted last
""",
)
@sessions_argument()
@store_option
@click.pass_obj
def command(app: App, ids: tuple[str, ...]) -> None:
    """Bring sessions back from the trash, as they were.

    Of several deleted sessions with one id the last deleted comes back. If a new session has taken
    the id meanwhile, it is refused and both stay where they are. `holdfast list --trash` shows what
    can come back.
    """
    for session_id in [choose_deleted(app.library, id) for id in ids]:
        app.library.undelete(session_id)
        app.out.line("brought back ", Span(session_id, "name"))
