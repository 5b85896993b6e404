"""One HTML page: nothing to load, nothing that runs, readable by day and by night."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from holdfast.formats._view import ExportOptions, Recorded, clock, moment
from holdfast.formats.writers.markdown import ROLES
from holdfast.replay import Entry, Media, as_json, grouped, read_transcript
from holdfast.security import neutralise, neutralise_line

_STYLE = "\n" + files(__package__).joinpath("page.css").read_text(encoding="ascii")
# The page allows this one style by its hash, and no other.
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Nothing is fetched and nothing runs, even if a browser misread something: this is the second lock.
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
_FENCE = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]{0,30})[ \t]*+\Z", re.ASCII)
# Within one line, so that a mark without its end changes nothing; looked for in escaped text.
_MARKED = re.compile(
    r"(?<!`)`[^`\n]{1,500}+`(?!`)|\*\*(?=[^\s*])[^*\n]{1,500}+\*\*|^#{1,6}+ [^\n]{1,500}+", re.MULTILINE
)
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_SHORT_CHARS = 90


def write_html(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """The page, piece by piece."""
    yield _head(recorded, options).encode("utf-8", "replace")
    for message in grouped(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
        first = message[0]
        if first.kind == "note":
            text = f"{first.name}: {first.text}" if first.pieces else first.name
            shown = f'<p class="note" id="e{first.seq}">{_text(text)}</p>\n'
        else:
            shown = _message(message, options)
        yield shown.encode("utf-8", "replace")
    yield b"</main>\n</body>\n</html>\n"


def _head(recorded: Recorded, options: ExportOptions) -> str:
    row = recorded.metadata
    title = _line(row.title or "Untitled Session")
    rows = {
        "Session": _line(row.session_id),
        "Created": clock(row.created_at, options.zone),
        "Updated": clock(row.updated_at, options.zone),
        "Messages": f"{row.message_count:,}",
        "Tokens": f"{'about ' if row.tokens_estimated else ''}{row.total_tokens:,}",
        "Tags": _line(", ".join(row.tags)),
    }
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows.items() if value)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n<dl>\n{shown}</dl>\n</header>\n<main>\n"
    )


def _message(message: list[Entry], options: ExportOptions) -> str:
    first = message[0]
    when = moment(first.timestamp, options.zone).isoformat(timespec="milliseconds")
    time = clock(first.timestamp, options.zone, "%H:%M:%S")
    agent = f' <span class="agent">{_line(first.agent)}</span>' if first.agent else ""
    body = "".join(_part(entry) for entry in message)
    end = '<p class="note">(cut off here)</p>\n' if first.state != "whole" else ""
    place = f"e{first.seq}-{first.part}" if first.part else f"e{first.seq}"
    return (
        f'<article class="{first.role}" id="{place}">\n<h2>{ROLES[first.role]}{agent}'
        f' <time datetime="{when}">{time}</time></h2>\n{body}{end}</article>\n'
    )


def _part(entry: Entry) -> str:
    if entry.kind == "call":
        given = entry.value if isinstance(entry.value, dict) else {}
        brief = _shortened(", ".join(f"{name}={as_json(item)}" for name, item in given.items()))
        whole = as_json({} if entry.value is None else entry.value, indent=2)
        return _fold(f"<b>{_line(entry.name)}</b> {brief}", whole)
    if entry.kind in ("result", "failure"):
        pictures = "".join(_media(one) for one in entry.pieces if isinstance(one, Media))
        first_line = entry.text.strip().partition("\n")[0]
        summary = f"<b>{_line(entry.name) or 'result'}</b> {_shortened(first_line)}"
        return _fold(summary, entry.text, failed=entry.kind == "failure") + pictures
    if entry.kind == "thinking":
        return _fold("Thinking", entry.text)
    return "".join(_media(piece) if isinstance(piece, Media) else _prose(piece) for piece in entry.pieces)


def _prose(text: str) -> str:
    """Words with their line breaks; what is fenced as code looks like code."""
    pieces: list[str] = []
    lines: list[str] = []
    fence: re.Match[str] | None = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and fence is None:
            pieces.append(_words(lines))
            fence, lines = mark, []
        elif mark is not None and fence is not None and not mark[2] and mark[1].startswith(fence[1]):
            pieces.append(_code(lines, fence[2]))
            fence, lines = None, []
        else:
            lines.append(line)
    pieces.append(_words(lines) if fence is None else _code(lines, fence[2]))
    return "".join(pieces)


def _words(lines: list[str]) -> str:
    bare = "\n".join(lines).strip("\n")
    if not bare.strip(" \t\n"):
        return ""
    return f'<div class="text">{_MARKED.sub(_mark, _text(bare))}</div>\n'


def _mark(found: re.Match[str]) -> str:
    """What is marked as code, strong or a heading looks like it; every character stays."""
    tag = "code" if found[0][0] == "`" else "b"
    return f"<{tag}>{found[0]}</{tag}>"


def _code(lines: list[str], language: str) -> str:
    title = f' title="{_line(language)}"' if language else ""
    text = "\n".join(lines)
    return f"<pre{title}>{_text(text)}</pre>\n"


def _fold(summary: str, text: str, *, failed: bool = False) -> str:
    kind = ' class="failed"' if failed else ""
    return f"<details{kind}><summary>{summary}</summary>\n<pre>{_text(text)}</pre>\n</details>\n"


def _media(media: Media) -> str:
    data = media.source.get("data")
    if media.media_type in _PICTURES and isinstance(data, str) and _BASE64.match(data):
        alt = _line(" ".join(filter(None, (media.kind, media.name))))
        return f'<p><img alt="{alt}" src="data:{media.media_type};base64,{data}"></p>\n'
    return f'<p class="note">{_line(str(media))}</p>\n'


def _shortened(text: str) -> str:
    return _line(text if len(text) <= _SHORT_CHARS else text[: _SHORT_CHARS - 1] + "…")


def _text(text: str) -> str:
    return escape(neutralise(text))


def _line(text: str) -> str:
    return escape(neutralise_line(text))
