"""``holdfast copy``: sessions and agents into another store."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import complete_folder, json_option, sessions_argument, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted, size

__all__ = ["command"]


@click.command(
    "copy",
    short_help="Copy sessions and agents into another store.",
    epilog="""\b
Examples:
  holdfast copy --to postgresql://db.example/sessions
  holdfast copy trip-planner --to ./backup
  holdfast --store old copy --to new --json
""",
)
@sessions_argument(required=False)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL",
    shell_complete=complete_folder,
    help="The other store.",
)
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, ids: tuple[str, ...], target: str, as_json: bool) -> int:
    """Copy sessions with their snapshots and documents, or all of them and every agent.

    What arrives is compared by checksum. A copy that was broken off goes on where it stopped when
    it is made again; sessions that went on since get what is new. Nothing here is changed. A
    session that is another one over there, or what an agent learned there, is left alone and named.
    """
    chosen = [choose(app.library, id) for id in ids] or None
    with app.err.meter("copying", in_bytes=True) as progress:
        done = app.library.copy_to(target, chosen, progress=progress)
    if as_json:
        app.out.json(done)
    else:
        app.out.line(
            f"copied {counted(len(done.sessions), 'session')}"
            f" and {counted(len(done.agents), 'agent')}, {size(done.size_bytes)};"
            f" {len(done.unchanged):,} were there already"
        )
        for name, why in done.failed.items():
            app.err.line(Span("failed ", "bad"), Span(name, "name"), f"  {why}")
    return EXIT_FAILED if done.failed else EXIT_FINE
