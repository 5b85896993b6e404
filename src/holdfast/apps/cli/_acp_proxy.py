"""``holdfast acp proxy``: stand between an editor and its agent."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import AtLeast, store_option


@click.command(
    "proxy",
    short_help="Stand between an editor and its agent, and keep every session.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  holdfast acp proxy -- gemini --acp
  holdfast acp proxy -- opencode acp
  holdfast --store ~/sessions acp proxy -- claude-agent-acp
""",
)
@click.argument("agent", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--window-tokens",
    type=AtLeast(1),
    metavar="N",
    help="How much of the past an agent that lost it is told [default: 24000].",
)
@store_option
@click.pass_obj
def command(app: App, agent: tuple[str, ...], *, window_tokens: int | None) -> int:
    """Stand between an editor and its agent, and keep every session.

    Write it in front of the agent's command in the editor's configuration. Everything is recorded
    before it is shown; sessions can be listed, loaded, resumed, forked, closed and deleted whatever
    the agent can do. What goes wrong is told on standard error.
    """
    from holdfast.apps.acp.proxy.server import serve_proxy

    serve_proxy(app.place, list(agent), window_tokens=window_tokens, say=app.warn)
    return EXIT_FINE
