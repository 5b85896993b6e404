"""``holdfast serve space``: which spaces there are, and what becomes of one that is not needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._help import with_shared_options
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.page import Column
from holdfast.apps.render.words import counted
from holdfast.errors import HoldfastError
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.http.tokens import Token
    from holdfast.storage import Store

_COLUMNS = (Column("SPACE"), Column("SESSIONS", right=True), Column("TOKENS", right=True))


@click.group(
    "space",
    epilog="""\b
Examples:
  holdfast serve space list
  holdfast serve space remove alice
""",
)
def command() -> None:
    """List the spaces of the service, and remove one.

    A space is there from the first token that was made for it.
    """


@click.command("list")
@json_option
@store_option
@click.pass_obj
def _list(app: App, *, as_json: bool) -> None:
    """List the spaces for which tokens were made, with their sessions and good tokens."""
    from holdfast.apps.http.tokens import TokenBook

    store, now = app.library.store, now_ms()
    tokens = TokenBook(store).all()
    found = [
        (name, len(_sessions(store, name)), sum(one.is_good(now) for one in _of(tokens, name)))
        for name in sorted({one.space for one in tokens if one.space})
    ]
    if as_json:
        from holdfast.library.answers.store import SpaceList, SpaceRow

        rows = [SpaceRow(space=name, sessions=many, tokens=good) for name, many, good in found]
        app.out.json(SpaceList(spaces=rows))
        return
    if not found:
        app.err.line("There are no spaces; `holdfast serve token create` begins one.")
        return
    app.out.table(_COLUMNS, [[name, str(many), str(good)] for name, many, good in found])


@click.command("remove")
@click.argument("name", metavar="NAME")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_option
@click.pass_obj
def _remove(app: App, name: str, *, yes: bool) -> int:
    """Revoke the tokens of a space, and put its sessions into its trash.

    On a terminal it asks first. What is under legal hold, or open, stays, and is named.
    """
    from holdfast.apps.http.tokens import TokenBook
    from holdfast.storage import check_space

    store = app.library.store
    book = TokenBook(store)
    good = [one for one in _of(book.all(), check_space(name)) if one.is_good(now_ms())]
    ids = _sessions(store, name)
    what = f"{counted(len(ids), 'session')} and {counted(len(good), 'token')} of {name}"
    asks = not yes and sys.stdin.isatty() and app.err.is_terminal
    if asks and not click.confirm(f"Remove {what}?", err=True):
        app.err.line("Nothing was removed.")
        return EXIT_FAILED
    for one in good:  # first, so that nobody comes back while sessions go
        book.revoke(one.id)
    stayed = _delete(app, name, ids)
    app.err.line(f"Removed {what}; HOLDFAST_SPACE={name} holdfast undelete ID brings one back.")
    return EXIT_FAILED if stayed else EXIT_FINE


def _delete(app: App, name: str, ids: list[str]) -> int:
    """Put sessions into the trash of their space; how many could not be."""
    stayed = 0
    with app.library.space(name) as space:
        for id in ids:
            try:
                space.delete(id)
            except HoldfastError as error:
                stayed += 1
                app.err.line(f"{id} stays: {error.message}")
    return stayed


def _of(tokens: list[Token], name: str) -> list[Token]:
    return [one for one in tokens if one.space == name]


def _sessions(store: Store, name: str) -> list[str]:
    prefix = f"spaces/{name}/sessions/"
    return sorted(key[len(prefix) :] for key in store.folders(prefix))


for _each in (_list, _remove):
    command.add_command(with_shared_options(_each))
