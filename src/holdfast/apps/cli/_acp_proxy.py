"""``holdfast acp proxy``."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option

__all__ = ["command"]


@click.command("proxy", short_help="Stand between an editor and its agent, and keep every session.")
@store_option
@click.pass_obj
def command(app: App) -> int:
    """Stand between an editor and its agent, and keep every session."""
    raise NotImplementedError
