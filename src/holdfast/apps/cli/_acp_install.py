"""``holdfast acp install``."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option

__all__ = ["command"]


@click.command("install", short_help="Write the configuration of an editor.")
@store_option
@click.pass_obj
def command(app: App) -> int:
    """Write the configuration of an editor."""
    raise NotImplementedError
