"""``holdfast encrypt``: Seal sessions that are there, with a key."""

from __future__ import annotations

from typing import Any

import click

from holdfast.apps.cli._seals import rewrite, some_or_all

__all__ = ["command"]


@click.command(
    "encrypt",
    short_help="Seal sessions that are there, with a key.",
    epilog="""\b
Examples:
  holdfast encrypt trip-planner
  holdfast encrypt --all
  holdfast encrypt --all --json
""",
)
@some_or_all
def command(ctx: click.Context, ids: tuple[str, ...], **given: Any) -> int:
    """Seal sessions with all they have: log, payloads, snapshots; with --all also trash and agents.

    The key is the one that `key` names in your configuration (see `holdfast keys --help`). The log
    is written anew and the old bytes are destroyed. Broken off at any moment, every session opens,
    and the same command goes on. Forks are sessions of their own: seal them too.
    """
    return rewrite(ctx, "encrypt", "sealed", ids, given)
