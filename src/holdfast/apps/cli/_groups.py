"""Verbs that have verbs of their own, such as ``holdfast serve token``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._help import with_shared_options


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
        """As click does, with a suggestion for a misspelt part."""
        name = args[0]
        if name not in self.parts and not name.startswith("-"):
            hint = suggestion(name, self.parts)
            ctx.fail(f"there is no command {self.name} {name[:60]!a}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The parts, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.parts.items()))
