"""``holdfast chat``: talk to an agent whose session stays."""

from __future__ import annotations

from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import store_option, wait_option
from holdfast.apps.cli._talk_options import Wishes, talk_options

__all__ = ["command"]


@click.command(
    "chat",
    short_help="Talk to an agent; its session stays.",
    epilog="""\b
Examples:
  holdfast chat                          go on where you stopped
  holdfast chat --new
  holdfast chat --session trip-planner
  holdfast chat --model anthropic:claude-sonnet-4-5
  echo 'What did I say?' | holdfast chat
""",
)
@talk_options
@wait_option
@store_option
@click.pass_obj
def command(app: App, /, **wishes: Any) -> int:
    """Talk to an agent. Everything is kept as it is said: quit, or be killed, and go on.

    Without options it goes on with the agent's current session. In a pipe each line is a message;
    the answers go to standard output. The model: --model, else the configuration, else an API key
    in the environment, else the small one that is embedded.
    """
    from holdfast.apps.cli._chat import Chat

    return Chat(app, Wishes(**wishes)).run()
