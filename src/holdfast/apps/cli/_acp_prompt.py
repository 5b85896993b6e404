"""``holdfast acp prompt``."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option

__all__ = ["command"]


@click.command("prompt", short_help="Ask an agent one thing, on a session that stays.")
@store_option
@click.pass_obj
def command(app: App) -> int:
    """Ask an agent one thing, on a session that stays."""
    raise NotImplementedError
