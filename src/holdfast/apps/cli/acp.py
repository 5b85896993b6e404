"""``holdfast acp``: sessions for editors and their agents, by the Agent Client Protocol."""

from __future__ import annotations

from importlib import import_module

import click

from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import store_option
from holdfast.apps.cli._shared import with_shared_options

__all__ = ["command"]

# As the help shows them, so that help loads none of them.
PARTS = {
    "proxy": "Stand between an editor and its agent, and keep every session.",
    "agent": "Serve Holdfast's own agent to an editor.",
    "prompt": "Ask an agent one thing, on a session that stays.",
    "doctor": "Say what an agent really can do.",
    "install": "Write the configuration of an editor.",
}


class _Parts(click.Group):
    """Parts that are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The parts in the order of the help page."""
        return list(PARTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The part of that name, loaded now."""
        if cmd_name not in PARTS:
            return None
        found: click.Command = import_module(f"holdfast.apps.cli._acp_{cmd_name}").command
        return with_shared_options(found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a misspelt part."""
        name = args[0]
        if name not in PARTS and not name.startswith("-"):
            ctx.fail(f"there is no command acp {name[:60]!a}{suggestion(name, PARTS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The parts, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(PARTS.items()))


@click.group(
    "acp",
    cls=_Parts,
    short_help="Keep the sessions of editors' agents; serve one; ask one.",
    epilog="""\b
Examples:
  holdfast acp proxy -- gemini --acp        in place of `gemini --acp`
  holdfast acp agent                        our own agent, for an editor
  holdfast acp prompt --agent "opencode acp" "What does this project do?"
  holdfast acp doctor -- gemini --acp
  holdfast acp install zed
""",
)
@store_option
def command() -> None:
    """Sessions for editors and their agents, by the Agent Client Protocol (ACP).

    The proxy stands between an editor and any ACP agent: everything is recorded before it is
    shown, and sessions can be listed, loaded, resumed, forked, closed and deleted whatever the
    agent can do.
    """
