"""``holdfast erase``: sessions gone for good."""

from __future__ import annotations

import sys

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, session_argument, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.errors import NotFound, UsageError

__all__ = ["command"]


@click.command(
    "erase",
    short_help="Destroy a session and its forks for good.",
    epilog="""\b
Examples:
  holdfast erase trip-planner
  holdfast erase trip-planner --yes
  holdfast erase trip-planner --keep-forks --yes --json
""",
)
@session_argument
@click.option("--keep-forks", is_flag=True, help="Leave sessions that were forked from it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@store_option
@click.pass_obj
def command(app: App, id: str, *, keep_forks: bool, yes: bool, as_json: bool) -> int:
    """Destroy a session, also one in the trash, so that nothing of it is left in the store.

    The keys of a sealed one go first, then log, payloads, snapshots and quarantine, the same of
    every fork, what was deleted under its id, and its words in the index. There is no way back:
    `holdfast delete` has one. What could not be reached is named. On a terminal it asks first;
    elsewhere it wants --yes.
    """
    session_id = _chosen(app, id)
    forks = [] if keep_forks else app.library.trash.family(session_id)
    if not yes and not _is_meant(app, session_id, forks):
        app.err.line("Nothing was erased.")
        return EXIT_FAILED
    done = app.library.erase(session_id, forks=not keep_forks)
    if as_json:
        app.out.json(done)
        return EXIT_FINE
    for key in done.erased:
        app.out.line("erased ", Span(key.removeprefix("sessions/"), "name"))
    for text in done.unreached:
        app.err.line(text)
    return EXIT_FINE


def _chosen(app: App, id: str) -> str:
    """The session's id, also of one that is in the trash only."""
    try:
        return choose(app.library, id)
    except NotFound:
        if any(one.session_id == id for one in app.library.trash.list()):
            return id
        raise


def _is_meant(app: App, session_id: str, forks: list[str]) -> bool:
    if not (sys.stdin.isatty() and app.err.is_terminal):
        raise UsageError("erasing is final", remedy="Say --yes to go on without being asked.")
    for key in forks:
        app.err.line("with ", Span(key.removeprefix("sessions/"), "name"))
    what = f"{session_id} and {counted(len(forks), 'fork')}" if forks else session_id
    return click.confirm(f"Destroy {what} for good?", err=True)
