"""``holdfast bridge``: sessions and an agent for programs in any language."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import complete_agent, store_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError

__all__ = ["command"]


@click.command(
    "bridge",
    short_help="Serve sessions and an agent to programs, as lines of JSON.",
    epilog="""\b
Examples:
  holdfast bridge                        at a private socket of yours
  holdfast bridge --socket ~/.run/holdfast.sock
  holdfast bridge --stdio                for the program that starts it
  holdfast bridge --schema               every message, as a JSON schema
""",
)
@click.option("--socket", metavar="PATH", help="Listen there; the folder must be yours alone.")
@click.option("--stdio", is_flag=True, help="Serve one client, on standard input and output.")
@click.option("--model", metavar="NAME", help="The model, such as openai:gpt-5 or local.")
@click.option(
    "--agent",
    metavar="ID",
    shell_complete=complete_agent,
    help="The agent whose sessions the new ones are.",
)
@click.option("--schema", "shows_schema", is_flag=True, help="Print the schema, and end.")
@store_option
@click.pass_obj
def command(
    app: App,
    *,
    socket: str | None,
    stdio: bool,
    model: str | None,
    agent: str | None,
    shows_schema: bool,
) -> int:
    """Serve sessions and an agent to programs in any language, as lines of JSON.

    Each line is a message with a type, such as {"type": "session_list"}, or a JSON-RPC 2.0 request,
    such as {"jsonrpc": "2.0", "id": 1, "method": "session.list"}; it is answered in kind. Every
    connection has a current session of its own. The model: as for `holdfast chat`.
    """
    from holdfast.agent import Kit
    from holdfast.apps.ipc.bridge import default_address, schema, serve_socket, serve_stdio

    if shows_schema:
        app.out.stream(schema())
        return EXIT_FINE
    if stdio and socket is not None:
        raise UsageError("a bridge is either at a socket or on standard input", remedy="Use one.")
    kit = Kit.configured(app.place, model=model, agent=agent)
    if stdio:
        serve_stdio(app.place, kit)
        return EXIT_FINE

    def ready(address: str) -> None:
        app.err.line(Span("Listening at ", "good"), address)
        app.err.flush()

    serve_socket(app.place, kit, socket or default_address(), ready=ready)
    return EXIT_FINE
