"""``holdfast delete``: sessions into the trash."""

from __future__ import annotations

import sys

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import sessions_argument, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import ago, counted
from holdfast.session import now_ms

__all__ = ["command"]


@click.command(
    "delete",
    short_help="Put sessions into the trash.",
    epilog="""\b
Examples:
  holdfast delete trip-planner
  holdfast delete 01jx 01jy --yes
  holdfast undelete trip-planner
""",
)
@sessions_argument()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_option
@click.pass_obj
def command(app: App, ids: tuple[str, ...], *, yes: bool) -> int:
    """Put sessions into the trash, from which `holdfast undelete` brings them back.

    On a terminal it asks first. A session that a program has open is refused.
    """
    chosen = list(dict.fromkeys(choose(app.library, id) for id in ids))
    if not yes and sys.stdin.isatty() and app.err.is_terminal and not _is_meant(app, chosen):
        app.err.line("Nothing was deleted.")
        return EXIT_FAILED
    for session_id in chosen:
        app.library.delete(session_id)
        app.out.line("deleted ", Span(session_id, "name"))
    return EXIT_FINE


def _is_meant(app: App, ids: list[str]) -> bool:
    now = now_ms()
    for session_id in ids:
        row = app.library.info(session_id)
        app.err.line(
            Span(session_id, "name"),
            f"  {row.title or '(no title)'}",
            Span(f"  {counted(row.message_count, 'message')}, {ago(row.updated_at, now)}", "faint"),
        )
    what = "it" if len(ids) == 1 else f"these {len(ids)} sessions"
    return click.confirm(f"Put {what} into the trash?", err=True)
