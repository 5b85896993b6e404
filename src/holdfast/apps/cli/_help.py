"""The options that every verb has, and help that fits the place where it is shown."""

from __future__ import annotations

import re
from typing import TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._screen import COLOURS
from holdfast.apps.render.page import Span

_HEADING = re.compile(r" {0,2}[A-Z][a-z ]+:$")

C = TypeVar("C", bound=click.Command)


def with_shared_options(command: C) -> C:
    """The verb with ``--color``, ``--no-pager`` and a help that a pager shows if it is long."""
    if command.add_help_option:
        command.add_help_option = False
        command.params += shared_options()
    return command


def shared_options() -> list[click.Parameter]:
    """The options anew. What they say is read by `asked`, so that it also holds for failures."""
    return [
        click.Option(
            ["--color"],
            type=click.Choice(COLOURS),
            metavar="WHEN",
            expose_value=False,
            help="Colours: auto (the default), always, never.",
        ),
        click.Option(
            ["--no-pager"],
            is_flag=True,
            expose_value=False,
            help="Print long output straight onto the terminal.",
        ),
        click.Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_help,
            help="Show this page.",
        ),
    ]


def print_help(app: App, text: str) -> None:
    """A page of help; its headings stand out where there are colours."""
    for line in text.splitlines():
        app.out.line(Span(line, "strong" if _HEADING.match(line) else ""))


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if not value or ctx.resilient_parsing:
        return
    app = ctx.find_object(App) or App()
    app.page()
    ctx.call_on_close(app.close)
    print_help(app, ctx.get_help())
    ctx.exit()
