"""``holdfast rotate``: another key for everything that is sealed."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.cli._seals import tell

__all__ = ["command"]


@click.command(
    "rotate",
    short_help="Change the key of everything that is sealed.",
    epilog="""\b
Examples:
  holdfast rotate --to file:~/.config/holdfast/new.key
  holdfast rotate --to keyring:2027 --data
  holdfast rotate --data
""",
)
@click.option("--to", "source", metavar="SOURCE", help="The new key, such as keyring:NAME.")
@click.option("--data", is_flag=True, help="Seal everything again, with new data keys.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, *, source: str | None, data: bool, as_json: bool) -> int:
    """Wrap the data keys of all sealed sessions, of trash and agents, under another key.

    The old key opens nothing afterwards; name the new one in your configuration. With --data all
    is sealed again, which is what to do when a data key may have been seen. Broken off at any
    moment, everything opens with the old key or the new one, and the same command goes on.
    """
    if source is None and not data:
        ctx.fail("name the new key with --to, or say --data")
    app: App = ctx.obj
    with app.err.meter("rotating") as progress:
        done = app.library.keys.rotate(source, data=data, progress=progress)
    code = tell(app, done, "rotated", as_json=as_json)
    if source is not None and done.changed and not as_json:
        app.err.line(f"Name the new key from now on: key = '{source}' in your config.toml.")
    return code
