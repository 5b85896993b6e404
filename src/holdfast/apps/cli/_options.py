"""Options and arguments that verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.apps.cli._app import App

__all__ = [
    "complete_id",
    "json_option",
    "limit_option",
    "session_argument",
    "sessions_argument",
    "store_option",
]

F = TypeVar("F", bound=Callable[..., Any])


def store_option(function: F) -> F:
    """``--store`` after the verb; it wins over one before it."""
    return click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=_use_store,
        help="The store: a path or a URL [env: HOLDFAST_STORE].",
    )(function)


def json_option(function: F) -> F:
    """``--json`` for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        function
    )


def limit_option(default: int) -> Callable[[F], F]:
    """``--limit``: how many are shown at the most; 0 for all."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        metavar="N",
        help="At most so many; 0 for all.",
    )


def session_argument(function: F) -> F:
    """``ID``: a session's id, the beginning of one, or ``-`` for the newest."""
    return click.argument("id", metavar="ID", shell_complete=complete_id)(function)


def sessions_argument(*, required: bool = True) -> Callable[[F], F]:
    """``ID...``: the same, several times."""
    return click.argument(
        "ids", metavar="ID...", nargs=-1, required=required, shell_complete=complete_id
    )


def _use_store(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    app = ctx.find_object(App)
    if app is not None and value is not None:
        app.place = value


def complete_id(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The ids that begin like this, for the shell."""
    from holdfast.apps.cli._choosing import session_ids
    from holdfast.errors import HoldfastError
    from holdfast.library import Holdfast

    place = ctx.params.get("store") or (ctx.parent.params.get("store") if ctx.parent else None)
    try:
        with Holdfast(place, timers=False) as library:
            return [id for id in session_ids(library) if id.startswith(incomplete)]
    except HoldfastError:
        return []
