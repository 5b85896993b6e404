"""``holdfast web``: the page for people."""

from __future__ import annotations

import os
import sys

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import host_option, port_option, store_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError

__all__ = ["command", "has_display"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command(
    "web",
    short_help="Open every session in a browser, on this machine.",
    epilog="""\b
Examples:
  holdfast web
  holdfast web --no-open                print the address, and open nothing
  holdfast web --port 8600 --store ./.holdfast
""",
)
@port_option(0)
@host_option("NAME", "An address of this machine for itself.")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.option("--model", metavar="NAME", help="The model for chats, as of `holdfast chat`.")
@click.option("--agent", metavar="ID", help="The agent whose sessions new chats are.")
@store_option
@click.pass_obj
def command(
    app: App, *, port: int, host: str, no_open: bool, model: str | None, agent: str | None
) -> int:
    """Open every session in a browser: list, search, conversation, branches, activity, chat.

    The page is served on this machine only. The address that is printed lets one browser in, once.
    Ctrl-C ends it; running answers are stopped, and what was said is kept.
    """
    try:
        from holdfast.apps.web.app import serve_web
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[web]'",
        ) from error
    if host not in _LOOPBACK:
        raise UsageError(
            f"{host[:60]!a} is not this machine for itself",
            remedy="Use 127.0.0.1, and a tunnel such as `ssh -L` from elsewhere.",
        )
    from holdfast.agent import Kit
    from holdfast.apps.cli._health import check_settings, check_store

    def ready(url: str) -> None:
        app.err.line(Span("Open ", "good"), url)
        app.err.line(Span("It works once, for one browser. Ctrl-C ends it.", "faint"))
        app.err.flush()
        if not no_open and has_display():
            open_browser(url)

    serve_web(
        app.place,
        lambda: Kit.configured(app.place, model=model, agent=agent),
        host=host,
        port=port,
        checks=lambda: [*check_store(app), *check_settings()],
        ready=ready,
    )
    return EXIT_FINE


def has_display() -> bool:
    """Whether a browser would have a screen to open on."""
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(url: str) -> None:
    """Show the address in the user's browser, without waiting for it."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
