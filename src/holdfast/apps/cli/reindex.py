"""``holdfast reindex``: make the catalogue anew."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.words import counted, size

__all__ = ["command"]


@click.command(
    short_help="Make the catalogue anew from the logs.",
    epilog="""\b
Examples:
  holdfast reindex
  holdfast reindex --json
""",
)
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, as_json: bool) -> None:
    """Read every log and make the catalogue of list, search and stats anew.

    This is never needed to get right answers: a catalogue that is missing, damaged or out of date
    is mended by itself. It also forgets that a log was once longer than it is.
    """
    with app.err.meter("reading", in_bytes=True) as show:
        done = app.library.reindex(show)
    if as_json:
        app.out.json(done)
        return
    app.out.line(
        f"Read {counted(done.sessions, 'session')} with {counted(done.events, 'event')},"
        f" {size(done.bytes)}, in {done.seconds:.1f} s."
    )
