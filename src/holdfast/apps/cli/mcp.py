"""``holdfast mcp``: past sessions for other agents, by the Model Context Protocol."""

from __future__ import annotations

import os

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import port_option, store_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError

__all__ = ["command"]

_TOKEN = "HOLDFAST_MCP_TOKEN"  # noqa: S105 - the name of the variable


@click.command(
    "mcp",
    short_help="Give other agents your past sessions, by MCP.",
    epilog="""\b
Examples:
  claude mcp add holdfast -- holdfast mcp      in Claude Code: that is all
  holdfast mcp                                 as the command of any MCP client
  holdfast mcp --write                         it may also save and fork
  holdfast mcp --http --port 8765              by HTTP, for clients of this machine
""",
)
@click.option("--write", is_flag=True, help="Let clients add to sessions and fork them.")
@click.option("--http", is_flag=True, help="Streamable HTTP on this machine, with a token.")
@port_option(8765, "The port for --http")
@store_option
@click.pass_obj
def command(app: App, *, write: bool, http: bool, port: int) -> int:
    """Give other agents your past sessions, by the Model Context Protocol (MCP).

    Tools to list, search, read, recall and summarise sessions, transcripts as resources, prompts
    to go on with an earlier one. Nothing can be changed unless --write is given. Without --http it
    serves one client on standard input and output.
    """
    try:
        from holdfast.apps.mcp.run import serve_http, serve_stdio
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[mcp]'",
        ) from error
    if not http:
        serve_stdio(app.place, writes=write)
        return EXIT_FINE
    given = os.environ.get(_TOKEN)

    def ready(address: str, token: str) -> None:
        app.err.line(Span("Serving at ", "good"), address)
        if not given:
            app.err.line(Span(f"Token (or set {_TOKEN}): ", "faint"), token)
        app.err.flush()

    serve_http(app.place, port=port, writes=write, token=given, ready=ready)
    return EXIT_FINE
