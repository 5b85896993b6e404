"""``holdfast keys``: the keys that open what is sealed."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.cli._seals import tell
from holdfast.apps.render.page import Column, Span
from holdfast.library import Keys
from holdfast.library.answers.store import KeyCheck, KeyList, KeyMade

__all__ = ["command"]

_COLUMNS = (Column("KEY"), Column("FROM", flexible=True), Column("OPENS"), Column("AT HAND"))
_NEEDS_NAME = ("new", "add", "remove", "public")


@click.command(
    "keys",
    short_help="List, make, add, remove or check the keys of sealed sessions.",
    epilog="""\b
Examples:
  holdfast keys                      which keys open what
  holdfast keys new keyring:work     a new random key, in the keyring
  holdfast keys new file:~/hf.key    the same in a file of mode 0600
  holdfast keys add file:/safe/emergency.key
  holdfast keys remove 9f2c51d07a3be844
  holdfast keys check
  holdfast keys public file:~/sign.key   for who verifies what it signed

\b
A key is named by where it is:
  keyring, keyring:NAME     the system's keyring
  file:PATH                 32 bytes, raw, in hex or base64; only you may read it
  env:VARIABLE              the same in a variable
  command:PROGRAM ARGS      the same as a program prints it
  passphrase                HOLDFAST_PASSPHRASE, else you are asked
""",
)
@click.argument(
    "what", type=click.Choice(["list", "new", "add", "remove", "check", "public"]), default="list"
)
@click.argument("name", required=False, metavar="[SOURCE|KEY]")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, what: str, name: str | None, *, as_json: bool) -> int:
    """Tell which keys open what is sealed here, make one, or change what they open.

    new makes a random key; add lets one more key open everything; remove lets one open nothing any
    more; check says whether all opens with the keys that are set, with exit code 4 if not. Keys
    themselves are never shown, nor kept in the store: a key is told by its fingerprint.
    """
    if (name is None) == (what in _NEEDS_NAME):
        ctx.fail(f"`keys {what}` {'needs a name' if name is None else 'takes no name'}")
    app: App = ctx.obj
    if what == "check":
        return _check(app, as_json=as_json)
    if what == "list":
        return _list(app, as_json=as_json)
    assert name is not None
    if what == "public":
        return _show_public(app, name, as_json=as_json)
    if what == "new":
        return _make(app, name, as_json=as_json)
    act = app.library.keys.add if what == "add" else app.library.keys.remove
    with app.err.meter("rewrapping") as progress:
        done = act(name, progress=progress)
    return tell(app, done, "rewrapped", as_json=as_json)


def _list(app: App, *, as_json: bool) -> int:
    found = app.library.keys.list()
    if as_json:
        app.out.json(KeyList(keys=found))
    elif found:
        rows = [
            [Span(one.id, "name"), one.source, f"{one.sealed:,}", "yes" if one.available else "no"]
            for one in found
        ]
        app.out.table(_COLUMNS, rows)
    else:
        app.out.line("nothing is sealed here")
    return EXIT_FINE


def _check(app: App, *, as_json: bool) -> int:
    closed = app.library.keys.check()
    if as_json:
        app.out.json(KeyCheck(ok=not closed, closed=closed))
    else:
        for key, why in closed.items():
            app.out.line(Span("closed ", "bad"), Span(key, "name"), f"  {why}")
        if not closed:
            app.out.line("everything that is sealed opens")
    return EXIT_DAMAGED if closed else EXIT_FINE


def _show_public(app: App, source: str, *, as_json: bool) -> int:
    from holdfast.library import signing_seed
    from holdfast.security import public_key_text

    text = public_key_text(signing_seed(source))
    if as_json:
        app.out.json(KeyMade(id=text, source=source))
    else:
        app.out.line(text)
    return EXIT_FINE


def _make(app: App, source: str, *, as_json: bool) -> int:
    made = KeyMade(id=Keys.new(source), source=source)
    if as_json:
        app.out.json(made)
        return EXIT_FINE
    app.out.line("made ", Span(made.id, "name"), f" in {source}")
    app.err.line(
        f"Use it with: key = '{source}' in your config.toml, and seal = true for new sessions."
    )
    app.err.line("Keep a copy in a safe place: without it nothing that it seals can be read.")
    return EXIT_FINE
