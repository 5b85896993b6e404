"""``holdfast acp install``: write the configuration of an editor."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.page import Span


@click.command(
    "install",
    short_help="Write the configuration of an editor.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog="""\b
Examples:
  holdfast acp install zed                        our own agent, in Zed
  holdfast acp install zed -- gemini --acp        the proxy in front of Gemini
  holdfast acp install jetbrains --print -- opencode acp
""",
)
@click.argument("editor", metavar="zed|jetbrains")
@click.argument("agent", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", metavar="TEXT", help="What it is called in the editor's menu.")
@click.option("--file", "path", metavar="PATH", help="The settings file, if it is elsewhere.")
@click.option("--print", "only_print", is_flag=True, help="Show it and write nothing.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    editor: str,
    agent: tuple[str, ...],
    *,
    name: str | None,
    path: str | None,
    only_print: bool,
    as_json: bool,
) -> int:
    """Write the configuration of an editor: our own agent, or the proxy in front of CMD.

    The rest of the file, comments too, stays as it is, and a copy of the old one is kept beside it.
    An entry of the same name is replaced; its variables stay. The store that HOLDFAST_STORE names
    is written, too, since an editor may not have that variable.
    """
    from holdfast.apps.acp.editors import command_line, default_name, plan, write

    words = list(agent)
    command = command_line(words, app.place or _named_store(app))
    found = plan(editor, command, name=name or default_name(words), path=path)
    backup = None if only_print or not found.changes else write(found)
    if as_json:
        from holdfast.library.answers.turns import AcpInstalled

        app.out.json(
            AcpInstalled(
                file=found.path,
                name=found.name,
                entry=found.entry,
                written=found.changes and not only_print,
                backup=backup,
            )
        )
        return EXIT_FINE
    if only_print:
        app.out.line(Span(f"for {found.path}:", "faint"))
        app.out.json({"agent_servers": {found.name: found.entry}})
    elif not found.changes:
        app.out.line(f"{found.path} has it already.")
    else:
        app.out.line(Span("written: ", "good"), f"{found.name} in {found.path}")
        if backup is not None:
            app.out.line(Span(f"the old one: {backup}", "faint"))
    return EXIT_FINE


def _named_store(app: App) -> str | None:
    """The store that the environment names: an editor's own environment is another."""
    from holdfast._config import ENVIRONMENT

    store = os.environ.get(ENVIRONMENT, "").strip()
    if store and urlsplit(store).password:
        app.warn(
            f"{ENVIRONMENT} has a password in it, which is not written into settings",
            f"Give the editor {ENVIRONMENT} as a variable, or name the store with --store.",
        )
        return None
    return store or None
