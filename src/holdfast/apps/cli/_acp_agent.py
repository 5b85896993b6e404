"""``holdfast acp agent``."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option

__all__ = ["command"]


@click.command("agent", short_help="Serve Holdfast's own agent to an editor.")
@store_option
@click.pass_obj
def command(app: App) -> int:
    """Serve Holdfast's own agent to an editor."""
    raise NotImplementedError
