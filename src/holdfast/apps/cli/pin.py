"""``holdfast pin``: let no policy take a session away."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import session_argument, store_option, wait_option
from holdfast.apps.render.page import Span

__all__ = ["command"]


@click.command(
    "pin",
    short_help="Keep a session from being pruned, or put it under legal hold.",
    epilog="""\b
Examples:
  holdfast pin trip-planner
  holdfast pin trip-planner --off
  holdfast pin trip-planner --hold "case 2026-114"
  holdfast pin trip-planner --release
""",
)
@session_argument
@click.option("--off", is_flag=True, help="Let policies have it again.")
@click.option("--hold", metavar="REASON", help="Legal hold: nobody can delete it.")
@click.option("--release", is_flag=True, help="End the legal hold.")
@wait_option
@store_option
@click.pass_context
def command(ctx: click.Context, /, *, id: str, off: bool, hold: str | None, release: bool) -> None:
    """Pin a session, so that `holdfast prune` leaves it alone whatever the policies say.

    A legal hold goes further: as long as it lasts, nobody can delete the session.
    """
    if off + release + (hold is not None) > 1:
        ctx.fail("choose one of --off, --hold and --release")
    app: App = ctx.obj
    session_id = choose(app.library, id)
    if hold is not None:
        app.library.policies.hold(session_id, hold)
        done = "held"
    elif release:
        app.library.policies.release(session_id)
        done = "released"
    elif off:
        app.library.policies.unpin(session_id)
        done = "unpinned"
    else:
        app.library.policies.pin(session_id)
        done = "pinned"
    app.out.line(f"{done} ", Span(session_id, "name"))
