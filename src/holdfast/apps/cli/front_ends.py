"""The front ends that the command starts: terminal app, web page, MCP server, bridge."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import host_option, model_option, named_option, needs_extra, option, port_option, verb
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TOKEN = "HOLDFAST_MCP_TOKEN"  # noqa: S105 - the name of the variable


@verb("tui")
@named_option("--session", "--restore", "session", of="session", help="Open this session; - for the newest.")
@model_option
@named_option("--agent", of="agent", help="The agent for new sessions.")
@click.option("--light", is_flag=True, help="Use the light theme.")
def tui_verb(app: App, /, *, session: str | None, **wishes: Any) -> None:
    """Open the terminal app to browse, read, search and chat.

    Press ? for a list of keys, Ctrl+P for all actions.

    Examples:
      holdfast tui
      holdfast tui --restore -              continue the newest session
      holdfast tui --light
      holdfast                              the same as `holdfast tui`, on a terminal
    """
    with needs_extra("tui"):
        if not is_installed():
            raise ModuleNotFoundError(name="textual")
    if not has_terminal():
        raise UsageError("the terminal app needs a terminal", remedy="In a pipe, use `holdfast list --json`.")
    start(app, session_id=None if session is None else choose(app.library, session), **wishes)


def has_terminal() -> bool:
    """Return whether all three streams are terminals: the app draws on standard error."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def is_installed() -> bool:
    """Return whether the library of the app is installed."""
    from importlib.util import find_spec

    return find_spec("textual") is not None


def start(app: App, **wishes: Any) -> None:
    """Run the app until the user leaves it."""
    from holdfast.apps.tui import make_app
    from holdfast.apps.watched import watch

    watch(app.library, has_screen=True)
    make_app(app.library, place=app.place, **wishes).run()


@verb("web")
@port_option(0)
@host_option("NAME", "The loopback address to listen on.")
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@option("--model NAME", "The model for chats, as for `holdfast chat`.")
@option("--agent ID", "The agent for new chats.")
def web_verb(app: App, *, port: int, host: str, no_open: bool, **wishes: str | None) -> None:
    """Open the web app to browse, read, search, branch and chat.

    Pages are served to this machine only. The printed address contains a one-time login for one browser.
    Press Ctrl-C to stop; running answers are stopped, and what was said so far is kept.

    Examples:
      holdfast web
      holdfast web --no-open                only print the address
      holdfast web --port 8600 --store ./.holdfast
    """
    with needs_extra("web"):
        from holdfast.apps.web.app import serve_web
    # Plain HTTP, and every admitted client can do everything: that is for this machine alone.
    if host not in _LOOPBACK:
        remedy = "Use 127.0.0.1, and a tunnel such as `ssh -L` from elsewhere."
        raise UsageError(f"{host[:60]!a} is not a loopback address", remedy=remedy)
    from holdfast.agent import Kit
    from holdfast.apps.cli._health import check_settings, check_store

    def make_kit() -> Kit:
        kit = Kit.configured(app.place, **wishes)
        app.tell_guide(kit)
        return kit

    def ready(url: str) -> None:
        app.err.line(Span("Open ", "good"), url)
        app.err.line(Span("The link works once, in one browser. Press Ctrl-C to stop.", "faint"))
        app.err.flush()
        if not no_open and has_display():
            open_browser(url)

    serve_web(
        app.place, make_kit, host=host, port=port, checks=lambda: [*check_store(app), *check_settings()], ready=ready
    )


def has_display() -> bool:
    """Return whether a browser has a screen to open on."""
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(url: str) -> None:
    """Show the address in the user's browser, without waiting for it."""
    import threading
    import webbrowser

    # Some browsers stay in the foreground, and the server has to answer them.
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


@verb("mcp")
@click.option("--write", is_flag=True, help="Let clients add to sessions and fork them.")
@click.option("--answers", is_flag=True, help="Let clients answer waiting tool calls.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP on this machine, with a token.")
@port_option(8765, "The port for --http")
def mcp_verb(app: App, *, write: bool, answers: bool, http: bool, port: int) -> None:
    """Give other agents access to your sessions over the Model Context Protocol (MCP).

    Provides tools to list, search, read, recall and summarise sessions, transcripts as resources, and prompts to
    continue an earlier session. Read-only unless --write is given; waiting calls can only be answered with
    --answers. Serves one client on standard input and output unless --http is given.

    Examples:
      claude mcp add holdfast -- holdfast mcp      set up in Claude Code
      holdfast mcp                                 as the command of any MCP client
      holdfast mcp --write                         also allow saving and forking
      holdfast mcp --http --port 8765              over HTTP, for local clients
    """
    with needs_extra("mcp"):
        from holdfast.apps.mcp.run import serve_http, serve_stdio
    if not http:
        serve_stdio(app.place, writes=write, answers=answers)
        return
    # Not an option: other users can see the arguments of a process.
    given = os.environ.get(_TOKEN)

    def ready(address: str, token: str) -> None:
        app.err.line(Span("Serving at ", "good"), address)
        if not given:
            app.err.line(Span(f"Token (or set {_TOKEN}): ", "faint"), token)
        app.err.flush()

    serve_http(app.place, port=port, writes=write, answers=answers, token=given, ready=ready)


@verb("bridge")
@option("--socket PATH", "Listen on this socket, in a directory only you can access.")
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@model_option
@named_option("--agent", of="agent", help="The agent for new sessions.")
@click.option("--schema", "shows_schema", is_flag=True, help="Print the schema and exit.")
def bridge_verb(
    app: App, *, socket: str | None, stdio: bool, model: str | None, agent: str | None, shows_schema: bool
) -> None:
    """Serve sessions and an agent to programs in any language, over newline-delimited JSON.

    Each line is a message with a type, such as {"type": "session_list"}, or a JSON-RPC 2.0 request,
    such as {"jsonrpc": "2.0", "id": 1, "method": "session.list"}; answers have the same form. Every
    connection has its own current session. The model is chosen as by `holdfast chat`.

    Examples:
      holdfast bridge                        on a private socket
      holdfast bridge --socket ~/.run/holdfast.sock
      holdfast bridge --stdio                for a parent process
      holdfast bridge --schema               every message, as a JSON schema
    """
    if shows_schema:
        from holdfast.apps.ipc.messages import schema

        app.out.stream(schema())
        return
    from holdfast.agent import Kit
    from holdfast.apps.ipc.bridge import default_address, serve_socket, serve_stdio

    if stdio and socket is not None:
        raise UsageError("--socket and --stdio cannot be used together", remedy="Use one.")
    kit = Kit.configured(app.place, model=model, agent=agent)
    app.tell_guide(kit)
    if stdio:
        serve_stdio(app.place, kit)
        return

    def ready(address: str) -> None:
        app.err.line(Span("Listening at ", "good"), address)
        app.err.flush()

    serve_socket(app.place, kit, socket or default_address(), ready=ready)
