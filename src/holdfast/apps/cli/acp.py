"""``holdfast acp``: sessions for editors and their agents, by the Agent Client Protocol."""

from __future__ import annotations

import click

from holdfast.apps.cli._help import Parts
from holdfast.apps.cli._options import store_option

__all__ = ["command"]

# As the help shows them, so that help loads none of them.
PARTS = {
    "proxy": "Stand between an editor and its agent, and keep every session.",
    "agent": "Serve Holdfast's own agent to an editor.",
    "prompt": "Ask an agent one thing, on a session that stays.",
    "doctor": "Say what an agent really can do.",
    "install": "Write the configuration of an editor.",
}


class _Parts(Parts):
    parts = PARTS


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
