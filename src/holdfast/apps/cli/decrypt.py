"""``holdfast decrypt``: Take the seal off sessions."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choosing import choose
from holdfast.apps.cli._options import json_option, sessions_argument, store_option
from holdfast.apps.cli._resealing import tell

__all__ = ["command"]


@click.command(
    "decrypt",
    short_help="Take the seal off sessions.",
    epilog="""\b
Examples:
  holdfast decrypt trip-planner
  holdfast decrypt --all
  holdfast decrypt --all --json
""",
)
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Everything in the store.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, ids: tuple[str, ...], *, everything: bool, as_json: bool) -> int:
    """Take the seal off sessions and all they have; with --all also off trash and agents.

    Broken off at any moment, every session opens, and the same command goes on.
    """
    if everything == bool(ids):
        ctx.fail("name the sessions, or say --all")
    app: App = ctx.obj
    chosen = None if everything else [choose(app.library, id) for id in ids]
    with app.err.meter("rewriting") as progress:
        done = app.library.decrypt(chosen, progress=progress)
    return tell(app, done, "unsealed", as_json=as_json)
