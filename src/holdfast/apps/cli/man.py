"""``holdfast man``: the manual pages."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from holdfast.apps.cli._app import SECTIONS, App
from holdfast.apps.cli._options import store_option
from holdfast.apps.cli.help import complete_command, find_command
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
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


# Manual pages made of what the commands say about themselves. Pure: commands to troff.


_ENVIRONMENT = {
    "HOLDFAST_STORE": "The store, where no --store is given.",
    "HOLDFAST_PAGER, PAGER": "What shows long output on a terminal; `cat` or nothing for no pager.",
    "NO_COLOR": "Set to anything: no colours.",
    "FORCE_COLOR, CLICOLOR_FORCE": "Set to anything but 0: colours also into a pipe.",
    "HOLDFAST_TRACEBACK": "Set to anything: failures come with a stack trace.",
}
_EXIT_CODES = {
    "0": "Fine.",
    "1": "Failed: the store could not be written or reached; you said no.",
    "2": "Wrong usage: an option, an id, a setting.",
    "3": "Not found: no such session, event or file.",
    "4": "Damaged or refused: a damaged log, a newer format, a session that is open elsewhere.",
    "130": "Stopped with Ctrl-C.",
}
_GAP = re.compile(r" {2,}")
_CODE = re.compile(r"`([^`]+)`")


def page_name(context: click.Context) -> str:
    """``holdfast-acp-proxy`` for `holdfast acp proxy`."""
    return context.command_path.replace(" ", "-")


def manual(
    context: click.Context,
    version: str,
    sections: dict[str, dict[str, str]] | None = None,
) -> str:
    """The page of a command; ``sections`` are the commands in it by heading, with what they do."""
    command = context.command
    name = page_name(context)
    short = command.short_help or _paragraphs(command.help)[0]
    lines = [
        f'.TH "{_text(name.upper())}" 1 "" "holdfast {_text(version)}" "Holdfast manual"',
        ".nh",
        ".SH NAME",
        f"{_text(name)} \\- {_text(_lowered(short))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_described(command.help),
    ]
    for title, commands in (sections or {}).items():
        lines += [f".SH {_text(title.upper())}", *_definitions(commands)]
    lines += [".SH OPTIONS", *_definitions(_options(context))]
    lines += _examples(command.epilog)
    if context.parent is None:
        lines += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT)]
    lines += [".SH EXIT STATUS", *_definitions(_EXIT_CODES)]
    lines += [".SH SEE ALSO", _see_also(context, sections)]
    return "\n".join(lines) + "\n"


def _options(context: click.Context) -> dict[str, str]:
    given = context.command.get_params(context)
    records = (one.get_help_record(context) for one in given if isinstance(one, click.Option))
    return dict(record for record in records if record is not None)


def _described(text: str | None) -> Iterator[str]:
    for number, paragraph in enumerate(_paragraphs(text)):
        if number:
            yield ".PP"
        yield _text(paragraph)


def _definitions(pairs: dict[str, str]) -> Iterator[str]:
    for name, meaning in pairs.items():
        yield ".TP"
        yield f".B {_text(name)}"
        yield _text(meaning or "")


def _examples(epilog: str | None) -> Iterator[str]:
    """The examples as they stand; what else an epilog says is in sections of its own."""
    listed = (epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in listed.splitlines() if line.strip(" \b")]
    if not lines:
        return
    yield ".SH EXAMPLES"
    for line in lines:
        call, *remark = _GAP.split(line, 1)
        yield from (".TP", f".B {_text(call)}", _text(*remark) if remark else "\\&")


def _see_also(context: click.Context, sections: dict[str, dict[str, str]] | None) -> str:
    names: Iterable[str]
    if sections:
        verbs = [verb for commands in sections.values() for verb in commands]
        names = [f"{page_name(context)}-{verb}" for verb in verbs]
    else:
        parent = context.parent
        names = [] if parent is None else [page_name(parent)]
    return ", ".join(f"\\fB{_text(name)}\\fR(1)" for name in names) or "\\fBman\\fR(1)"


def _paragraphs(text: str | None) -> list[str]:
    clean = inspect.cleandoc(text or "").replace("\b", "")
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", clean) if part.strip()] or [""]


def _lowered(sentence: str) -> str:
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def _text(text: str) -> str:
    """A line of text that troff shows as it is; what stands in `…` is bold."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    safe = _CODE.sub(r"\\fB\1\\fR", safe)
    safe = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in safe)
    return f"\\&{safe}" if safe.startswith(".") else safe
