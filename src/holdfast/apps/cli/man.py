"""``holdfast man``: the manual pages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.apps.cli._app import SECTIONS, App
from holdfast.apps.cli._manual import manual, page_name
from holdfast.apps.cli._options import store_option
from holdfast.apps.cli._screen import Span
from holdfast.apps.cli.help import complete_command, find_command
from holdfast.apps.shown.words import counted
from holdfast.model import VERSION
from holdfast.storage import place_file

__all__ = ["command", "pages"]


@click.command(
    "man",
    short_help="Show or install the manual pages.",
    epilog="""\b
Examples:
  holdfast man
  holdfast man show
  holdfast man --install           then also: man holdfast-show
  holdfast man list > holdfast-list.1
""",
)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_command)
@click.option("--install", is_flag=True, help="Write all pages where `man` looks for them.")
@store_option
@click.pass_obj
def command(app: App, words: tuple[str, ...], *, install: bool) -> None:
    """Show the manual page of a command, or of all of them.

    On a terminal the program `man` shows it; a pipe gets the page itself, in troff. With --install
    every page is written below ~/.local/share/man, where `man` finds it.
    """
    if install:
        _install(app)
        return
    page = _page(find_command(words))
    if not (app.out.is_terminal and _shown(page)):
        app.out.sink(is_json=False).write(page.encode())


def _shown(page: str) -> bool:
    """Whether the system's own program could show it."""
    try:
        done = subprocess.run(["man", "-l", "-"], input=page.encode(), check=False)  # noqa: S607 - wherever the system has it
    except OSError:
        return False
    return done.returncode == 0


def pages() -> Iterator[tuple[str, str]]:
    """Every page with the name of its file, made now."""
    for context in _contexts(find_command(())):
        yield f"{page_name(context)}.1", _page(context)


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            words = [*context.command_path.split()[1:], name]
            yield from _contexts(find_command(tuple(words)))


def _page(context: click.Context) -> str:
    group = context.command
    sections = None
    if context.parent is None:
        sections = SECTIONS
    elif isinstance(group, click.Group):
        found = {name: group.get_command(context, name) for name in group.list_commands(context)}
        sections = {"Commands": {name: one.short_help or "" for name, one in found.items() if one}}
    return manual(context, VERSION, sections)


def _install(app: App) -> None:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    folder = Path(data) / "man" / "man1"
    made = dict(pages())
    for name, page in made.items():
        place_file(folder / name, [page.encode()], overwrite=True, make_folders=True)
    app.out.line(f"wrote {counted(len(made), 'page')} into ", Span(str(folder), "name"))
