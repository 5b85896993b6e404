"""One HTML page: no external resources, an index of its turns, a search, for light and dark screens and for paper."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from holdfast.formats._view import ExportOptions, Recorded, clock, ending, moment
from holdfast.formats.prose import markdown_html
from holdfast.formats.writers.markdown import ROLES
from holdfast.replay import Entry, Media, PairedEntry, arguments, as_json, edit_of, grouped, paired, read_transcript
from holdfast.security import neutralise, neutralise_line

_STYLE, _SCRIPT = (
    "\n" + files(__package__).joinpath(name).read_text(encoding="ascii") for name in ("page.css", "page.js")
)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# The page allows this one style and this one script by their digests, and no other. Nothing is fetched and nothing else
# runs, even if a browser misread something: this is the second lock.
_POLICY = (
    f"default-src 'none'; style-src {_digest(_STYLE)}; script-src {_digest(_SCRIPT)};"
    " img-src data:; base-uri 'none'; form-action 'none'"
)
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_SHORT_CHARS = 90
_AT_WORK = ("running", "waiting", "suspended")  # the last turn may still come to its end
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1000


@dataclass
class _Turn:
    """A line of the index: a question, and the outcome."""

    place: str
    asked: str
    begin: int
    end: int
    tools: int = 0
    went_wrong: bool = False
    was_interrupted: bool = False


def write_html(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield the page, piece by piece.

    The index comes last, when the turns are known; the style moves it to the front.
    """
    yield _head(recorded, options).encode("utf-8", "replace")
    turns: list[_Turn] = []
    results: dict[tuple[int, int], PairedEntry] = {}

    def entries() -> Iterator[Entry]:
        for step in paired(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
            results[step.entry.seq, step.entry.part] = step
            yield step.entry

    for message in grouped(entries()):
        steps = [results.pop((entry.seq, entry.part)) for entry in message]
        _note_turn(turns, steps)
        shown = _note(message[0]) if message[0].kind == "note" else _message(steps, options)
        yield shown.encode("utf-8", "replace")
    end = ending(recorded.metadata)
    if turns and recorded.metadata.status in _AT_WORK:
        turns[-1].was_interrupted = False
    if end:
        yield f'<p class="end {recorded.metadata.status}">{end}</p>\n'.encode()
    yield ("</main>\n" + _index(turns) + f"<script>{_SCRIPT}</script>\n</body>\n</html>\n").encode("utf-8", "replace")


def _head(recorded: Recorded, options: ExportOptions) -> str:
    row = recorded.metadata
    title = _line(row.title or "Untitled Session")
    status = row.status if row.state == "ok" else row.state
    rows = {
        "Session": _line(row.session_id),
        "Created": clock(row.created_at, options.zone),
        "Updated": clock(row.updated_at, options.zone),
        "Duration": _duration(row.updated_at - row.created_at),
        "Agent": _line(row.agent_id or ""),
        "Model": _line(row.model or ""),
        "Folder": _line(row.cwd or ""),
        "Messages": f"{row.message_count:,}",
        "Tokens": f"{'about ' if row.tokens_estimated else ''}{row.total_tokens:,}",
        "Cost": f"${row.cost:.4f}" if row.cost else "",
        "Tags": _line(", ".join(row.tags)),
        "State": "" if status == "idle" else f'<span class="state {_line(status)}">{_line(status)}</span>',
    }
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows.items() if value)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n<dl>\n{shown}</dl>\n"
        '<search hidden><label>Search <input type="search" autocomplete="off"></label> <output></output></search>\n'
        "</header>\n<main>\n"
    )


def _note_turn(turns: list[_Turn], steps: list[PairedEntry]) -> None:
    """Begin a turn with a question, else add to the last one."""
    first = steps[0].entry
    if first.kind == "user":
        asked = neutralise_line(" ".join(first.text.split()))[:_SHORT_CHARS]
        turns.append(_Turn(_place(first), asked or "(no words)", first.timestamp, first.timestamp))
    if turns:
        turn = turns[-1]
        turn.end = max(turn.end, *((step.result or step.entry).timestamp for step in steps))
        turn.tools += sum(step.entry.kind == "call" for step in steps)
        turn.went_wrong = turn.went_wrong or any(step.went_wrong for step in steps)
        turn.was_interrupted = turn.was_interrupted or any(step.is_unfinished for step in steps)


def _index(turns: list[_Turn]) -> str:
    if not turns:
        return ""
    shown = "".join(
        f'<li{" class=wrong" if turn.went_wrong else ""}><a href="#{turn.place}">{escape(turn.asked)}</a>'
        f"<small>{_about(turn)}</small></li>\n"
        for turn in turns
    )
    return f'<nav aria-label="Turns">\n<h2>Turns</h2>\n<ol>\n{shown}</ol>\n</nav>\n'


def _about(turn: _Turn) -> str:
    tools = f"{turn.tools:,} {'call' if turn.tools == 1 else 'calls'}" if turn.tools else ""
    wrong = "something failed" if turn.went_wrong else "interrupted" if turn.was_interrupted else ""
    return ", ".join(filter(None, (_duration(turn.end - turn.begin), tools, wrong)))


def _place(entry: Entry) -> str:
    return f"e{entry.seq}-{entry.part}" if entry.part else f"e{entry.seq}"


def _note(entry: Entry) -> str:
    text = f"{entry.name}: {entry.text}" if entry.pieces else entry.name
    wrong = PairedEntry(entry).went_wrong
    return f'<p class="note{" wrong" if wrong else ""}" id="e{entry.seq}">{_text(text)}</p>\n'


def _message(steps: list[PairedEntry], options: ExportOptions) -> str:
    first = steps[0].entry
    when = moment(first.timestamp, options.zone).isoformat(timespec="milliseconds")
    time = clock(first.timestamp, options.zone, "%H:%M:%S")
    agent = f' <span class="agent">{_line(first.agent)}</span>' if first.agent else ""
    body = "".join(_part(step) for step in steps)
    end = '<p class="note">(cut off here)</p>\n' if first.state != "whole" else ""
    place = _place(first)
    return (
        f'<article class="{first.role}" id="{place}">\n<h2>{ROLES[first.role]}{agent}'
        f' <a href="#{place}"><time datetime="{when}">{time}</time></a></h2>\n{body}{end}</article>\n'
    )


def _part(step: PairedEntry) -> str:
    entry = step.entry
    if entry.kind == "call":
        return _call(step)
    if entry.kind in ("result", "failure"):
        first_line = entry.text.strip().partition("\n")[0]
        summary = f"<b>{_line(entry.name) or 'result'}</b> {_shortened(first_line)}"
        return _fold(summary, _pre(entry.text), "failed" if entry.kind == "failure" else "") + _pictures(entry)
    if entry.kind == "thinking":
        return _fold("Thinking", f'<div class="words">{markdown_html(entry.text)}</div>')
    return "".join(
        _media(piece) if isinstance(piece, Media) else f'<div class="words">{markdown_html(piece)}</div>\n'
        for piece in entry.pieces
    )


def _call(step: PairedEntry) -> str:
    """Yield a call with its arguments, its diff lines, and its result."""
    entry, result = step.entry, step.result
    edit = edit_of(entry)
    if edit is not None:
        given = _pre(edit[0]) + _difference(edit[1])
    else:
        given = _pre(as_json({} if entry.value is None else entry.value, indent=2))
    brief = _shortened(" ".join((edit[0] if edit is not None else arguments(entry.value)).split()))
    if result is None:
        came = '<p class="note">No result was recorded: it was interrupted, or is still going on.</p>'
        return _fold(f"<b>{_line(entry.name)}</b> {brief} <i>no result</i>", given + came, "open")
    failed = result.kind == "failure"
    took = f" <i>{_duration(step.took_ms)}</i>" if step.took_ms else ""
    summary = f"<b>{_line(entry.name)}</b> {brief}{took}"
    told = f"<h3>{'Failed' if failed else 'Result'}</h3>\n{_pre(result.text)}"
    return _fold(summary, given + told, "failed" if failed else "") + _pictures(result)


def _difference(lines: list[str]) -> str:
    kinds = {"-": "del", "+": "ins"}
    shown = (
        f"<{kinds[line[:1]]}>{_text(line)}</{kinds[line[:1]]}>" if line[:1] in kinds else _text(line) for line in lines
    )
    return '<pre class="difference">' + "\n".join(shown) + "</pre>\n"


def _fold(summary: str, inside: str, kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f"<details{marked}><summary>{summary}</summary>\n{inside}\n</details>\n"


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>\n" if text else ""


def _pictures(entry: Entry) -> str:
    return "".join(_media(one) for one in entry.pieces if isinstance(one, Media))


def _media(media: Media) -> str:
    data = media.source.get("data")
    if media.media_type in _PICTURES and isinstance(data, str) and _BASE64.match(data):
        alt = _line(" ".join(filter(None, (media.kind, media.name))))
        return f'<p><img alt="{alt}" src="data:{media.media_type};base64,{data}"></p>\n'
    return f'<p class="note">{_line(str(media))}</p>\n'


def _duration(ms: int) -> str:
    """Return a duration in its two largest units; nothing for less than a millisecond."""
    if ms < _SECOND_MS:
        return f"{ms} ms" if ms > 0 else ""
    if ms < _MINUTE_MS:
        return f"{ms / _SECOND_MS:.1f} s"
    for whole, part, names in ((_DAY_MS, _HOUR_MS, "d h"), (_HOUR_MS, _MINUTE_MS, "h min")):
        if ms >= whole:
            first, second = names.split()
            return f"{ms // whole:,} {first} {ms % whole // part} {second}"
    return f"{ms // _MINUTE_MS} min {ms % _MINUTE_MS // _SECOND_MS} s"


def _shortened(text: str) -> str:
    return _line(text if len(text) <= _SHORT_CHARS else text[: _SHORT_CHARS - 1] + "…")


def _text(text: str) -> str:
    return escape(neutralise(text))


def _line(text: str) -> str:
    return escape(neutralise_line(text))
