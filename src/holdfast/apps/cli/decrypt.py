"""``holdfast decrypt``: Take the seal off sessions."""

from __future__ import annotations

from typing import Any

import click

from holdfast.apps.cli._seals import rewrite, some_or_all

__all__ = ["command"]


@click.command(
    "decrypt",
    short_help="Take the seal off sessions.",
    epilog="""\b
Examples:
  holdfast decrypt trip-planner
  holdfast decrypt --all
  holdfast decrypt --all --json
""",
)
@some_or_all
def command(ctx: click.Context, ids: tuple[str, ...], **given: Any) -> int:
    """Take the seal off sessions and all they have; with --all also off trash and agents.

    Broken off at any moment, every session opens, and the same command goes on.
    """
    return rewrite(ctx, "decrypt", "unsealed", ids, given)
