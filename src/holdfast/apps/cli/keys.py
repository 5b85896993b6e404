"""The keys of sealed sessions, and the verbs that seal, unseal and reseal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, option, refuse, sessions_argument, together, verb
from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import counted

if TYPE_CHECKING:
    from holdfast.library import Resealed
    from holdfast.library.answers import store as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "store")

# Options of a verb that rewrites named sessions, or everything.
_some_or_all = together(
    sessions_argument(required=False),
    click.option("--all", "everything", is_flag=True, help="Everything in the store."),
    json_option,
)
_COLUMNS = (Column("KEY"), Column("FROM", flexible=True), Column("OPENS"), Column("AT HAND"))
_NEEDS_NAME = ("new", "add", "remove", "public")


def _rewrite(app: App, act: str, word: str, ids: tuple[str, ...], *, everything: bool) -> int:
    """Do what ``hf.keys`` calls ``act`` to the sessions, and tell it; the exit code."""
    if everything == bool(ids):
        refuse("specify sessions, or --all")
    # None is everything, trash and agents too, which have no id to be named by.
    chosen = None if everything else [choose(app.library, id) for id in ids]
    with app.err.meter("rewriting") as progress:
        done: Resealed = getattr(app.library.keys, act)(chosen, progress=progress)
    return _tell(app, done, word)


def _tell(app: App, done: Resealed, word: str) -> int:
    """Say what was done and what was not; the exit code."""
    code = EXIT_FAILED if done.failed else EXIT_FINE
    if app.as_json:
        app.out.json(done)
        return code
    for key in done.changed:
        app.out.line(f"{word} ", app.name(key))
    for key, why in done.failed.items():
        app.err.line(Span("failed ", "bad"), app.name(key), f"  {why}")
    if not done.changed and not done.failed:
        app.out.line("nothing to do")
    if done.relatives:
        names = ", ".join(app.name(key).text for key in done.relatives)
        app.err.line(
            f"{counted(len(done.relatives), 'fork')} with the same events"
            f" {'was' if len(done.relatives) == 1 else 'were'} left as before: {names}"
        )
    for text in done.left:
        app.err.line(text)
    return code


@verb("keys")
@click.argument("what", type=click.Choice(["list", "new", "add", "remove", "check", "public"]), default="list")
@click.argument("name", required=False, metavar="[SOURCE|KEY]")
@json_option
def keys_verb(app: App, what: str, name: str | None) -> int:
    """List the encryption keys of this store, create one, or change which keys open it.

    `new` creates a random key, `add` authorizes another key, `remove` revokes one, and `check` verifies that
    everything opens with the configured keys (exit code 4 if not). Keys are identified by fingerprint; they
    are never shown and never kept in the store.

    Examples:
      holdfast keys                      which keys open what
      holdfast keys new keyring:work     a new random key, in the keyring
      holdfast keys new file:~/hf.key    the same in a file of mode 0600
      holdfast keys add file:/safe/emergency.key
      holdfast keys remove 9f2c51d07a3be844
      holdfast keys check
      holdfast keys public file:~/sign.key   for who verifies what it signed

    Key sources:
      keyring, keyring:NAME     the system's keyring
      file:PATH                 32 bytes, raw, in hex or base64; only you may read it
      env:VARIABLE              the same in a variable
      command:PROGRAM ARGS      the same as a program prints it
      passphrase                HOLDFAST_PASSPHRASE, else you are asked
    """
    if (name is None) == (what in _NEEDS_NAME):
        refuse(f"`keys {what}` {'needs a name' if name is None else 'takes no name'}")
    if what == "check":
        return _check(app)
    if what == "list":
        return _list(app)
    assert name is not None
    if what in ("new", "public"):
        return _make_or_show(app, name, new=what == "new")
    act = app.library.keys.add if what == "add" else app.library.keys.remove
    with app.err.meter("rewrapping") as progress:
        return _tell(app, act(name, progress=progress), "rewrapped")


def _list(app: App) -> int:
    found = app.library.keys.list()
    if app.as_json:
        app.out.json(answers.KeyList(keys=found))
    elif found:
        rows = [
            [Span(one.id, "name"), one.source, f"{one.sealed:,}", "yes" if one.available else "no"] for one in found
        ]
        app.out.table(_COLUMNS, rows)
    else:
        app.out.line("nothing is encrypted here")
    return EXIT_FINE


def _check(app: App) -> int:
    closed = app.library.keys.check()
    if app.as_json:
        app.out.json(answers.KeyCheck(ok=not closed, closed=closed))
    else:
        for key, why in closed.items():
            app.out.line(Span("closed ", "bad"), app.name(key), f"  {why}")
        if not closed:
            app.out.line("everything that is sealed opens")
    return EXIT_DAMAGED if closed else EXIT_FINE


def _make_or_show(app: App, source: str, *, new: bool) -> int:
    """Make a key, or show the public half of one that signs."""
    from holdfast.library import Keys, signing_seed
    from holdfast.security import public_key_text

    # A new one is shown by its fingerprint: the key itself is only at its source.
    text = Keys.new(source) if new else public_key_text(signing_seed(source))
    if app.as_json:
        app.out.json(answers.KeyMade(id=text, source=source))
    elif new:
        app.out.line("made ", Span(text, "name"), f" in {source}")
        app.err.line(f"To use it, set: key = '{source}' in your config.toml, and seal = true for new sessions.")
        app.err.line("Keep a copy in a safe place: without it, sealed sessions cannot be read.")
    else:
        app.out.line(text)
    return EXIT_FINE


@verb("encrypt")
@_some_or_all
def encrypt_verb(app: App, ids: tuple[str, ...], *, everything: bool) -> int:
    """Encrypt sessions: log, payloads and snapshots; with --all also the trash, agents and what they share.

    Uses the key named by `key` in your configuration (see `holdfast keys --help`). Logs are rewritten and the
    old bytes destroyed. If interrupted, every session still opens; run the same command again to finish.
    Forks are separate sessions: encrypt them too.

    Examples:
      holdfast encrypt trip-planner
      holdfast encrypt --all
      holdfast encrypt --all --json
    """
    return _rewrite(app, "encrypt", "sealed", ids, everything=everything)


@verb("decrypt")
@_some_or_all
def decrypt_verb(app: App, ids: tuple[str, ...], *, everything: bool) -> int:
    """Decrypt sessions; with --all also the trash, agents and what they share.

    If interrupted, every session still opens; run the same command again to finish.

    Examples:
      holdfast decrypt trip-planner
      holdfast decrypt --all
      holdfast decrypt --all --json
    """
    return _rewrite(app, "decrypt", "unsealed", ids, everything=everything)


@verb("rotate")
@option("--to SOURCE", "The new key, such as keyring:NAME.", name="source")
@click.option("--data", is_flag=True, help="Re-encrypt everything with new data keys.")
@json_option
def rotate_verb(app: App, *, source: str | None, data: bool) -> int:
    """Re-encrypt the data keys of everything in the store with a new key.

    Afterwards the old key opens nothing; set the new one in your configuration. With --data, all content is
    re-encrypted with new data keys, in case a data key has leaked. If interrupted, everything opens with
    the old or the new key; run the same command again to finish.

    Examples:
      holdfast rotate --to file:~/.config/holdfast/new.key
      holdfast rotate --to keyring:2027 --data
      holdfast rotate --data
    """
    if source is None and not data:
        refuse("specify the new key with --to, or use --data")
    with app.err.meter("rotating") as progress:
        done = app.library.keys.rotate(source, data=data, progress=progress)
    code = _tell(app, done, "rotated")
    if source is not None and done.changed and not app.as_json:
        app.err.line(f"Set the new key from now on: key = '{source}' in your config.toml.")
    return code
