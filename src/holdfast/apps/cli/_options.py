"""Options and arguments that verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.render.words import moment_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# Under this name a context keeps the store for the completion of what follows.
STORE = "holdfast.store"

F = TypeVar("F", bound=Callable[..., Any])


class AtLeast(click.IntRange):
    """A whole number that is not below ``least``; help leaves that to common sense."""

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def _describe_range(self) -> str:
        return ""


def store_option(function: F) -> F:
    """``--store`` after the verb; it wins over one before it."""
    return click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=_use_store,
        shell_complete=complete_folder,
        help="The store: a path or a URL [env: HOLDFAST_STORE].",
    )(function)


def wait_option(function: F) -> F:
    """``--wait``: for a session that another process has, by verbs that write to it."""
    return click.option(
        "--wait",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        expose_value=False,
        callback=_use_wait,
        help="Wait so long for a session that is open elsewhere.",
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
        type=AtLeast(0),
        default=default,
        show_default=True,
        metavar="N",
        help="At most so many; 0 for all.",
    )


def port_option(default: int, help: str = "The port") -> Callable[[F], F]:
    """``--port``: where a server listens; 0 for any that is free."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=default,
        show_default=True,
        metavar="N",
        help=f"{help}; 0 for any that is free.",
    )


def host_option(metavar: str, help: str) -> Callable[[F], F]:
    """``--host``: the address that a server listens at."""
    return click.option(
        "--host", default="127.0.0.1", show_default=True, metavar=metavar, help=help
    )


def session_argument(function: F) -> F:
    """``ID``: a session's id, the beginning of one, or ``-`` for the newest."""
    return click.argument("id", metavar="ID", shell_complete=complete_id)(function)


def sessions_argument(*, required: bool = True) -> Callable[[F], F]:
    """``ID...``: the same, several times; ``[ID]...`` where they may be left out."""
    shown = "ID..." if required else "[ID]..."
    return click.argument(
        "ids", metavar=shown, nargs=-1, required=required, shell_complete=complete_id
    )


def _use_store(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    app = ctx.find_object(App)
    if value is not None:
        ctx.meta[STORE] = value
        if app is not None:
            app.place = value


def _use_wait(ctx: click.Context, _: click.Parameter, value: float | None) -> None:
    app = ctx.find_object(App)
    if app is None:
        return
    app.takes_wait = True
    if value is None:
        return
    if not math.isfinite(value):
        raise click.BadParameter("this is no number of seconds")
    app.wait_ms = round(value * 1000)


def complete_id(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """The ids that begin like this, for the shell."""
    from holdfast.apps.cli import _completion

    return _completion.complete_id(ctx, parameter, incomplete)


def complete_tag(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """The tags that begin like this."""
    from holdfast.apps.cli import _completion

    return _completion.complete_tag(ctx, parameter, incomplete)


def complete_agent(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """The agents whose names begin like this."""
    from holdfast.apps.cli import _completion

    return _completion.complete_agent(ctx, parameter, incomplete)


def complete_file(
    _ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Whatever the shell offers for a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_folder(
    _ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Whatever the shell offers for a folder."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


# Times on the command line: dates, and how long ago.


class When(click.ParamType[datetime]):
    """A moment; a day without a time means its beginning, or its end with ``end``."""

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment in the user's time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return moment_of(value.strip(), end=self._end)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value[:40]!a} is no date (2026-05-31) and no time ago (3d, 2h, 30m)", param
            )
