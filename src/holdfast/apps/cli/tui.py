"""``holdfast tui``: the terminal app."""

from __future__ import annotations

import sys

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import complete_agent, complete_id, store_option
from holdfast.errors import UsageError

__all__ = ["command", "has_terminal", "is_installed", "start"]


@click.command(
    "tui",
    short_help="Browse, read, search and talk in a terminal app.",
    epilog="""\b
Examples:
  holdfast tui
  holdfast tui --restore -              the newest session, to go on with
  holdfast tui --light
  holdfast                              the same as `holdfast tui`, on a terminal
""",
)
@click.option(
    "--session",
    "--restore",
    "session",
    metavar="ID",
    shell_complete=complete_id,
    help="Open it; - is the newest.",
)
@click.option("--model", metavar="NAME", help="The model, such as openai:gpt-5 or local.")
@click.option(
    "--agent",
    metavar="ID",
    shell_complete=complete_agent,
    help="The agent whose sessions new ones are.",
)
@click.option("--light", is_flag=True, help="Dark letters on a light ground.")
@store_option
@click.pass_obj
def command(
    app: App, /, *, session: str | None, model: str | None, agent: str | None, light: bool
) -> None:
    """Open the terminal app: every session in a list, its conversation, search, and talk.

    A press of ? shows all keys, Ctrl+P all actions.
    """
    if not is_installed():
        raise UsageError(
            "this needs the package textual, which is not installed",
            remedy="Install it with: pip install 'holdfast[tui]'",
        )
    if not has_terminal():
        raise UsageError(
            "the terminal app needs a terminal", remedy="In a pipe use `holdfast list --json`."
        )
    session_id = None if session is None else choose(app.library, session)
    start(app, session_id=session_id, model=model, agent=agent, light=light)


def has_terminal() -> bool:
    """Whether someone sits at all three streams: the app draws on standard error."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def is_installed() -> bool:
    """Whether the library that the app is made with is there."""
    from importlib.util import find_spec

    return find_spec("textual") is not None


def start(
    app: App,
    *,
    session_id: str | None = None,
    model: str | None = None,
    agent: str | None = None,
    light: bool = False,
) -> None:
    """Run the app until the user leaves it."""
    from holdfast.apps.tui import make_app
    from holdfast.apps.watched import watch

    watch(app.library, has_screen=True)
    make_app(
        app.library,
        place=app.place,
        session_id=session_id,
        model=model,
        agent=agent,
        light=light,
    ).run()
