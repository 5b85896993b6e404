"""The options that every verb has, and help that fits the place where it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._screen import COLOURS
from holdfast.apps.render.page import Span

_HEADING = re.compile(r" {0,2}[A-Z][a-z ]+:$")

C = TypeVar("C", bound=click.Command)


def with_shared_options(command: C) -> C:
    """The verb with ``--color``, ``--no-pager`` and a help that a pager shows if it is long."""
    # Once for each: a command is asked for again by completion, help and manual pages.
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
            ["--no-pager"], is_flag=True, expose_value=False, help="Print long output straight onto the terminal."
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
    # Completion parses half a line, and must not print.
    if not value or ctx.resilient_parsing:
        return
    app = ctx.find_object(App) or App()
    app.page()
    ctx.call_on_close(app.close)
    print_help(app, ctx.get_help())
    ctx.exit()


# Verbs that have verbs of their own, such as ``holdfast serve token``.


class Parts(click.Group):
    """A verb that has parts, whose names are known with what each does in short."""

    def __init__(self, *args: Any, parts: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.parts = parts
        """Their names, in the order of the help page, with what each does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The parts in the order of the help page."""
        return list(self.parts)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the part as click does, with a suggestion for a misspelt one."""
        name = args[0]
        if name not in self.parts and not name.startswith("-"):
            hint = suggestion(name, self.parts)
            ctx.fail(f"there is no command {self.name} {name[:60]!a}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The parts with what each does, uncut."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.parts.items()))
