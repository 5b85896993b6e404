"""Help, manual pages and the completion of shells."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator

import click

from holdfast.apps.cli._app import SECTIONS, App, cli, print_help, with_shared_options
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import verb
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.errors import UsageError
from holdfast.model import VERSION
from holdfast.storage import place_file

_PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/holdfast"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_holdfast"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/holdfast.fish"),
}


def complete_command(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands that begin like this."""
    names = cli.list_commands(ctx)
    return [] if ctx.params.get("words") else [name for name in names if name.startswith(incomplete)]


@verb("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_command)
def help_verb(app: App, words: tuple[str, ...]) -> None:
    """Show help for a command with examples, or list all commands.

    Examples:
      holdfast help
      holdfast help show
      holdfast help acp proxy
    """
    found = find_command(words)
    print_help(app, found.get_help())


def find_command(words: tuple[str, ...]) -> click.Context:
    """Return the context of a command such as `acp proxy`. Raises UsageError of click, with the nearest name."""
    context = with_shared_options(cli).make_context("holdfast", [], resilient_parsing=True)
    for word in words:
        group = context.command
        known = group.list_commands(context) if isinstance(group, click.Group) else []
        next_ = group.get_command(context, word) if isinstance(group, click.Group) else None
        if next_ is None:
            name = " ".join([*context.command_path.split()[1:], word])[:60]
            context.fail(f"there is no command {name!a}{suggestion(word, known)}")
        context = next_.make_context(word, [], context, resilient_parsing=True)
    return context


@verb("man")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_command)
@click.option("--install", is_flag=True, help="Install all manual pages where `man` looks for them.")
def man_verb(app: App, words: tuple[str, ...], *, install: bool) -> None:
    """Show the manual page of a command, or of holdfast itself.

    On a terminal the page is shown by `man`; in a pipe it is printed as troff. With --install all pages are
    written to ~/.local/share/man, where `man` finds them.

    Examples:
      holdfast man
      holdfast man show
      holdfast man --install           then also: man holdfast-show
      holdfast man list > holdfast-list.1
    """
    if install:
        from pathlib import Path

        folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "man" / "man1"
        made = dict(pages())
        for name, page in made.items():
            place_file(folder / name, [page.encode()], overwrite=True, make_folders=True)
        app.out.line(f"wrote {counted(len(made), 'page')} into ", Span(str(folder), "name"))
        return
    page = _page(find_command(words))
    if not (app.out.is_terminal and _shown(page)):
        app.out.sink(is_json=False).write(page.encode())


def _shown(page: str) -> bool:
    """Return whether the system's own program could show the page."""
    try:
        import subprocess

        done = subprocess.run(["man", "-l", "-"], input=page.encode(), check=False)  # noqa: S607 - wherever the system has it
    except OSError:
        return False
    return done.returncode == 0


def pages(*words: str) -> Iterator[tuple[str, str]]:
    """Yield the page of a command and those of its parts, each with the name of its file, made now."""
    context = find_command(words)
    yield f"{page_name(context)}.1", _page(context)
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            yield from pages(*words, name)


def _page(context: click.Context) -> str:
    group = context.command
    sections = None
    if context.parent is None:
        sections = SECTIONS
    elif isinstance(group, click.Group):
        found = {name: group.get_command(context, name) for name in group.list_commands(context)}
        sections = {"Commands": {name: one.short_help or "" for name, one in found.items() if one}}
    return manual(context, VERSION, sections)


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
    """Return the name of a page: ``holdfast-acp-proxy`` for `holdfast acp proxy`."""
    return context.command_path.replace(" ", "-")


def manual(context: click.Context, version: str, sections: dict[str, dict[str, str]] | None = None) -> str:
    """Return the page of a command; ``sections`` are the commands in it by heading, with what they do."""
    command = context.command
    name = page_name(context)
    first, *rest = map(_text, _paragraphs(command.help))
    short = command.short_help or _paragraphs(command.help)[0]
    given = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    lines = [
        f'.TH "{_text(name.upper())}" 1 "" "holdfast {_text(version)}" "Holdfast manual"',
        ".nh",
        ".SH NAME",
        f"{_text(name)} \\- {_text((short[:1].lower() + short[1:]).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        first,
        *(line for paragraph in rest for line in (".PP", paragraph)),
    ]
    for title, commands in (sections or {}).items():
        lines += [f".SH {_text(title.upper())}", *_definitions(commands)]
    lines += [".SH OPTIONS", *_definitions(dict(filter(None, (one.get_help_record(context) for one in given))))]
    lines += _examples(command.epilog)
    if context.parent is None:
        lines += [".SH ENVIRONMENT", *_definitions(_ENVIRONMENT)]
    lines += [".SH EXIT STATUS", *_definitions(_EXIT_CODES)]
    lines += [".SH SEE ALSO", _see_also(context, sections)]
    return "\n".join(lines) + "\n"


def _definitions(pairs: dict[str, str]) -> Iterator[str]:
    for name, meaning in pairs.items():
        yield from (".TP", f".B {_text(name)}", _text(meaning or ""))


def _examples(epilog: str | None) -> Iterator[str]:
    """Yield the examples as they stand; what else an epilog says is in sections of its own."""
    listed = (epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in listed.splitlines() if line.strip(" \b")]
    if not lines:
        return
    yield ".SH EXAMPLES"
    for line in lines:
        call, *remark = _GAP.split(line, 1)
        yield from (".TP", f".B {_text(call)}", _text(*remark) if remark else "\\&")


def _see_also(context: click.Context, sections: dict[str, dict[str, str]] | None) -> str:
    names = [f"{page_name(context)}-{verb}" for commands in (sections or {}).values() for verb in commands]
    if not names:
        names = [page_name(context.parent) if context.parent else "man"]
    return ", ".join(f"\\fB{_text(name)}\\fR(1)" for name in names)


def _paragraphs(text: str | None) -> list[str]:
    clean = inspect.cleandoc(text or "").replace("\b", "")
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", clean) if part.strip()] or [""]


def _text(text: str) -> str:
    """Return a line of text that troff shows as it is; what stands in `…` is bold."""
    # In this order: the backslashes that the others bring in must stay.
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace('"', "\\(dq")
    safe = _CODE.sub(r"\\fB\1\\fR", safe)
    safe = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in safe)
    # A dot at the beginning of a line is a request to troff.
    return f"\\&{safe}" if safe.startswith(".") else safe


@verb("completion")
@click.argument("shell", type=click.Choice(list(_PLACES)), required=False)
@click.option("--install", is_flag=True, help="Install the script where the shell looks for it.")
def completion_verb(app: App, shell: str | None, *, install: bool) -> None:
    """Print a shell completion script for commands, options, ids, tags and formats.

    The shell defaults to $SHELL. With --install the script is written to where bash (with bash-completion),
    zsh or fish look for it; start a new shell afterwards.

    Examples:
      holdfast completion bash --install
      holdfast completion zsh --install
      holdfast completion fish --install
      holdfast completion bash > holdfast.bash    to put it somewhere yourself
    """
    from pathlib import Path

    from holdfast.apps.cli._completion import script

    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in _PLACES:
        raise UsageError("cannot tell your shell", remedy=f"Name one of: {', '.join(_PLACES)}.")
    if not install:
        app.out.sink(is_json=False).write(script(chosen).encode())
        return
    variable, usual, name = _PLACES[chosen]
    path = Path(os.environ.get(variable) or Path.home() / usual) / name
    place_file(path, [script(chosen).encode()], overwrite=True, make_folders=True)
    app.out.line("wrote ", Span(str(path), "name"))
    if chosen == "zsh":
        app.out.line("If zsh does not find it, have this in .zshrc before compinit:")
        app.out.line(f"  fpath=({path.parent} $fpath)")
