"""``holdfast acp doctor``."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option

__all__ = ["command"]


@click.command("doctor", short_help="Say what an agent really can do.")
@store_option
@click.pass_obj
def command(app: App) -> int:
    """Say what an agent really can do."""
    raise NotImplementedError
