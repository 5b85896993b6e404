"""``holdfast archive``: logs compressed, and back."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import sessions_argument, store_option
from holdfast.apps.cli._progress import progress
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import size

__all__ = ["command"]


@click.command(
    "archive",
    short_help="Compress sessions that rest; they stay readable.",
    epilog="""\b
Examples:
  holdfast archive trip-planner
  holdfast archive 01jx 01jy
  holdfast archive trip-planner --restore
""",
)
@sessions_argument()
@click.option("--restore", is_flag=True, help="Take them out of the archive again.")
@store_option
@click.pass_obj
def command(app: App, ids: tuple[str, ...], *, restore: bool) -> None:
    """Compress the logs of sessions, to about a third of their size.

    An archived session is listed, searched, shown and exported as before; whoever goes on with it
    takes it out of the archive by that. A session that a program has open is refused.
    """
    chosen = list(dict.fromkeys(choose(app.library, id) for id in ids))
    for session_id in progress(app.err, chosen, "restoring" if restore else "archiving"):
        if restore:
            app.library.unarchive(session_id)
        else:
            app.library.archive(session_id)
        log = size(app.library.info(session_id).size_bytes)
        done = "restored " if restore else "archived "
        app.out.line(done, Span(session_id, "name"), Span(f"  a log of {log}", "faint"))
