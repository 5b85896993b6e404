"""``holdfast encrypt``: Seal sessions that are there, with a key."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choosing import choose
from holdfast.apps.cli._options import json_option, sessions_argument, store_option
from holdfast.apps.cli._resealing import tell

__all__ = ["command"]


@click.command(
    "encrypt",
    short_help="Seal sessions that are there, with a key.",
    epilog="""\b
Examples:
  holdfast encrypt trip-planner
  holdfast encrypt --all
  holdfast encrypt --all --json
""",
)
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Everything in the store.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, ids: tuple[str, ...], *, everything: bool, as_json: bool) -> int:
    """Seal sessions with all they have: log, payloads, snapshots; with --all also trash and agents.

    The key is the one that `key` names in your configuration (see `holdfast keys --help`). The log
    is written anew and the old bytes are destroyed. Broken off at any moment, every session opens,
    and the same command goes on. Forks are sessions of their own: seal them too.
    """
    if everything == bool(ids):
        ctx.fail("name the sessions, or say --all")
    app: App = ctx.obj
    chosen = None if everything else [choose(app.library, id) for id in ids]
    with app.err.meter("rewriting") as progress:
        done = app.library.encrypt(chosen, progress=progress)
    return tell(app, done, "sealed", as_json=as_json)
