"""The options that every verb has, and help that fits the place where it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar, TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import suggestion
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


# Verbs that have verbs of their own, such as ``holdfast serve token``.


class Parts(click.Group):
    """Parts that are loaded when they are asked for: ``_<verb>_<part>.py`` has each."""

    parts: ClassVar[Mapping[str, str]] = {}
    """Their names, in the order of the help page, with what each does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The parts in the order of the help page."""
        return list(self.parts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The part of that name, loaded now."""
        if cmd_name not in self.parts:
            return None
        module = import_module(f"holdfast.apps.cli._{self.name}_{cmd_name}")
        found: click.Command = module.command
        return with_shared_options(found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command by click's rules, with a suggestion for a misspelt part."""
        name = args[0]
        if name not in self.parts and not name.startswith("-"):
            hint = suggestion(name, self.parts)
            ctx.fail(f"there is no command {self.name} {name[:60]!a}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The parts, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.parts.items()))
