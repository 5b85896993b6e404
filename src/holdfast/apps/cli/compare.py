"""``holdfast compare``: two sessions side by side."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, two_sessions
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.comparison import print_comparison

__all__ = ["command"]


@click.command(
    "compare",
    short_help="Show two sessions side by side.",
    epilog="""\b
Examples:
  holdfast compare trip-planner 01jx
  holdfast compare trip-planner 01jx --json | jq .changes
""",
)
@two_sessions
@click.option("--full", is_flag=True, help="Long questions and answers with all their lines.")
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, a: str, b: str, full: bool, as_json: bool) -> None:
    """Show where two sessions parted, and what became of each.

    Turns that ask the same stand side by side, answers from where they differ. Numbers in front
    are those that `holdfast merge --turns` takes.
    """
    found = app.library.compare(choose(app.library, a), choose(app.library, b))
    if as_json:
        app.out.json(found)
        return
    print_comparison(app.out, found, full=full)
