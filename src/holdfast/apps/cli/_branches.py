"""What the verbs that make or compare branches share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import AtLeast, complete_id
from holdfast.apps.render.page import Span

F = TypeVar("F", bound=Callable[..., Any])


def at_option(*, required: bool = False) -> Callable[[F], F]:
    """``--at SEQ``: the last event that counts."""
    return click.option(
        "--at",
        type=AtLeast(0),
        required=required,
        metavar="SEQ",
        help="Up to this event; inside a batch, up to its end.",
    )


def id_option(function: F) -> F:
    """``--id NEW``: the id of the session that is made."""
    return click.option("--id", "new_id", metavar="NEW", help="The id of the new session.")(
        function
    )


def new_options(function: F) -> F:
    """``--id`` and ``--title`` of the session that is made."""
    titled = click.option("--title", metavar="TEXT", help="The title of the new session.")(function)
    return id_option(titled)


def two_sessions(function: F) -> F:
    """``A B``: two sessions."""
    second = click.argument("b", metavar="B", shell_complete=complete_id)(function)
    return click.argument("a", metavar="A", shell_complete=complete_id)(second)


def tell_made(app: App, made: str, how: str, parent: str, *, as_json: bool) -> None:
    """Say which session was made of which, and up to where."""
    found = app.library.state(made).parent
    seq = None if found is None else found.seq
    if as_json:
        from holdfast.library.answers.sessions import SessionForked

        app.out.json(SessionForked(session_id=made, parent=parent, at=seq))
        return
    app.out.line(f"{how} ", Span(parent, "name"), f" after event {seq}: ", Span(made, "name"))
