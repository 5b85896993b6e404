"""``holdfast acp agent``: Holdfast's own agent, for an editor."""

from __future__ import annotations

from importlib.util import find_spec

import click

from holdfast.agent import needs_agent
from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import complete_agent, store_option

_ENGINE = "pydantic_ai"


@click.command(
    "agent",
    short_help="Serve Holdfast's own agent to an editor.",
    epilog="""\b
Examples:
  holdfast acp agent                     as the command of an agent, in an editor
  holdfast acp agent --model anthropic:claude-sonnet-4-5
  holdfast acp agent --mode read-only
""",
)
@click.option("--model", metavar="NAME", help="The model, such as openai:gpt-5 or local.")
@click.option(
    "--agent",
    metavar="ID",
    shell_complete=complete_agent,
    help="The agent whose sessions these are.",
)
@click.option(
    "--mode",
    type=click.Choice(["ask", "read-only", "auto"]),
    default="ask",
    show_default=True,
    help="How freely it works in a session that is opened; the editor can change it.",
)
@store_option
@click.pass_obj
def command(app: App, *, model: str | None, agent: str | None, mode: str) -> int:
    """Serve Holdfast's own agent to an editor, on standard input and output.

    It serves any number of sessions at once: new ones, and all that the store holds, to list,
    load, resume, fork, close and delete. It reads and writes files and runs commands through the
    editor, as far as that offers it. The model: as for `holdfast chat`.
    """
    with needs_agent():
        if find_spec(_ENGINE) is None:  # it is loaded with the first prompt, which is too late
            raise ModuleNotFoundError(name=_ENGINE)
        from holdfast.apps.acp.agent.editor import EditorKit
        from holdfast.apps.acp.agent.server import serve_agent

    kit = EditorKit.configured(app.place, model=model, agent=agent, mode=mode)
    serve_agent(app.place, kit)
    return EXIT_FINE
