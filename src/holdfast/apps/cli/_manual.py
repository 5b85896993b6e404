"""Manual pages made of what the commands say about themselves. Pure: commands to troff."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

import click

__all__ = ["manual", "page_name"]

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
