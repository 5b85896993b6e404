"""Markdown: a document that reads well and that nothing in the session can break."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from holdfast.formats._view import ExportOptions, Recorded, clock, ending
from holdfast.replay import Entry, Media, as_json, grouped, read_transcript
from holdfast.security import escape_json, neutralise, neutralise_line

ROLES = {"user": "👤 User", "assistant": "🤖 Assistant", "system": "⚙️ System", "tool": "🔧 Tool"}
_UNTITLED = "Untitled Session"


def write_markdown(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield a head with the session's metadata, then a section for each message."""
    yield _head(recorded, options).encode("utf-8", "replace")
    unanswered: dict[str | None, str] = {}
    for message in grouped(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
        _note_calls(unanswered, message)
        shown = _note(message[0]) if message[0].kind == "note" else _message(message, options)
        yield f"\n{shown}\n".encode("utf-8", "replace")
    if told := _end(recorded, unanswered):
        yield f"\n*{markdown_line(told)}*\n".encode("utf-8", "replace")


def _note_calls(unanswered: dict[str | None, str], message: list[Entry]) -> None:
    """Add the calls of a message to those without a result, and take away those that have it."""
    for entry in message:
        if entry.kind == "call":
            unanswered[entry.id] = entry.name
        elif entry.kind in ("result", "failure"):
            unanswered.pop(entry.id, None)


def _end(recorded: Recorded, unanswered: dict[str | None, str]) -> str:
    """Return what is missing at the end: the end of a turn, results of calls."""
    names = ", ".join(dict.fromkeys(unanswered.values()))
    return " ".join(filter(None, [ending(recorded.metadata), f"No result was recorded for {names}." if names else ""]))


def _head(recorded: Recorded, options: ExportOptions) -> str:
    row = recorded.metadata
    rows = {
        "Session ID": markdown_line(row.session_id),
        "Created": clock(row.created_at, options.zone),
        "Updated": clock(row.updated_at, options.zone),
        "Messages": str(row.message_count),
        "Total Tokens": f"{'about ' if row.tokens_estimated else ''}{row.total_tokens}",
    }
    if row.status != "idle":
        rows["State"] = row.status
    title = markdown_line(row.title) if row.title and row.title.strip() else _UNTITLED
    lines = [f"# {title}", *(f"**{name}:** {value}" for name, value in rows.items()), "---"]
    return "\n\n".join(lines) + "\n"


def _message(message: list[Entry], options: ExportOptions) -> str:
    first = message[0]
    pieces = [f"## {ROLES[first.role]} [{clock(first.timestamp, options.zone, '%H:%M:%S')}]"]
    if first.agent:
        pieces.append(f"*Agent: {markdown_line(first.agent)}*")
    calls = [entry for entry in message if entry.kind == "call"]
    pieces += [_part(entry) for entry in message if entry.kind != "call"]
    if calls:
        shown = [
            ({"id": entry.id} if entry.id else {})
            | {"tool": entry.name, "args": {} if entry.value is None else entry.value}
            for entry in calls
        ]
        pieces += ["**Tool Calls:**", fenced(escape_json(as_json(shown, indent=2)), "json")]
    if first.state != "whole":
        pieces.append("*(cut off here)*")
    return "\n\n".join(piece for piece in pieces if piece)


def _part(entry: Entry) -> str:
    if entry.kind == "thinking":
        quoted = markdown_text(entry.text).split("\n")
        # A code block begins at the margin, so thinking with one in it cannot be a quotation.
        if any(line.startswith(("```", "~~~")) for line in quoted):
            return "*Thinking:*\n\n" + fenced(entry.text)
        return "\n".join(["> *Thinking:*", ">", *(f"> {line}" for line in quoted)])
    if entry.kind in ("result", "failure"):
        name = f"**{markdown_line(entry.name)}**" if entry.name else "**Result**"
        failed = " (failed)" if entry.kind == "failure" else ""
        return f"{name}{failed}:\n\n{fenced(entry.text)}"
    return "\n\n".join(
        f"*{markdown_line(str(piece))}*" if isinstance(piece, Media) else markdown_text(piece) for piece in entry.pieces
    )


def _note(entry: Entry) -> str:
    text = neutralise(f"{entry.name}: {entry.text}" if entry.pieces else entry.name)
    lines = markdown_text(text).split("\n")
    if any(line.startswith(("```", "~~~")) for line in lines):
        return fenced(text)
    return "\n".join(f"> {line}" for line in lines)


# Untrusted text inside a markdown document, readable and unable to change the document.
# Most messages are markdown themselves, so emphasis, lists, links and code stay as they are. Whatever could end the
# message it is in is made plain text: headings, rules, link definitions, HTML, images that would be fetched, and code
# blocks that never end. A code block begins at the left margin and ends with its message: there it is a code block for
# every parser, while inside a list one parser's code is another's heading. A code span is kept if it ends on its own
# line; other backticks are escaped, so that no span can extend from one line into the next. Outside code ``<`` and
# possible entities are escaped.
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)\Z")
_MARKERS = re.compile(r"(?:[ \t]|>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t]))*")
_RULE = re.compile(r"[-=*_ \t]+\Z")
_RUN = re.compile(r"`+")
_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]{1,32};)")
_LINK_CODE = re.compile(r"\](?=\(\s*+<?+\s*+(?:javascript|vbscript|data|file)\s*+:)", re.IGNORECASE)
_INLINE = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<|!\[")
_FENCE_CHARS = 3
_TITLE = re.compile(r"([\\`*\[\]<>~|]|(?<!\w)_|_(?!\w)|#+\Z|&(?=#?\w+;))")


def markdown_text(text: str) -> str:
    """Return ``text`` as part of a document; every line break stays one."""
    shown: list[str] = []
    fence = ""
    indent = 0
    for line in neutralise(text.replace("\r\n", "\n")).split("\n"):
        if fence:
            bare = line.strip(" \t")
            end = len(bare) >= len(fence) and not bare.strip(fence[0])
            # Indented text moves left as far as the block does.
            shown.append(fence if end else line[min(indent, len(line) - len(line.lstrip(" \t"))) :])
            fence = "" if end else fence
            continue
        opening = _FENCE.match(line)
        # Backticks in the rest of the line make it a code span, not a fence.
        if opening and not (opening[1][0] == "`" and "`" in opening[2]):
            fence, indent = opening[1], len(line) - len(line.lstrip(" \t"))
            shown.append(fence + opening[2])
        else:
            shown.append(_plain(line))
    if fence:
        shown.append(fence)
    return "\n".join(shown)


def markdown_line(text: str) -> str:
    """Return ``text`` for a place of one line, such as a title: nothing in it is markdown."""
    return _TITLE.sub(r"\\\1", neutralise_line(text)).strip() or " "


def fenced(text: str, language: str = "") -> str:
    """Return ``text`` as a code block, whose fence is longer than any in it."""
    clean = neutralise(text)
    # A fence ends at the first run that is as long, so its own must be longer.
    longest = max((len(run) for run in _RUN.findall(clean)), default=0)
    fence = "`" * max(_FENCE_CHARS, longest + 1)
    return f"{fence}{language}\n{clean}\n{fence}"


def _plain(line: str) -> str:
    """Return a line outside code: the beginning of a block loses its meaning, the rest stays."""
    prefix = _MARKERS.match(line)
    assert prefix is not None
    begin = prefix.end()
    bare = line.lstrip(" \t>")
    if bare and _RULE.match(bare):
        begin = len(line) - len(bare)
    rest = line[begin:]
    if rest and (
        rest[0] == "#"
        or _RULE.match(rest)
        or rest.startswith(("```", "~~~"))
        or (rest[0] == "[" and ("]:" in rest or "]" not in rest))
    ):
        return line[:begin] + "\\" * (rest[0] != "`") + _inline(rest)
    return line[:begin] + _inline(rest)


def _inline(text: str) -> str:
    """Return a part of a line: code spans stay, HTML and images become words."""
    if not _INLINE.search(text) and "&" not in text and "](" not in text:
        return text
    # Where runs of backticks begin, by their length: one of the same length ends a span.
    runs: dict[int, list[int]] = {}
    for found in _RUN.finditer(text) if "`" in text else ():
        runs.setdefault(len(found[0]), []).append(found.start())
    shown: list[str] = []
    at = 0
    while special := _INLINE.search(text, at):
        shown.append(_words(text[at : special.start()]))
        at, piece = _special(text, special, runs)
        shown.append(piece)
    shown.append(_words(text[at:]))
    return "".join(shown)


def _special(text: str, found: re.Match[str], runs: dict[int, list[int]]) -> tuple[int, str]:
    """Return where to continue, and what to write for a backslash, a backtick, a bracket or an image."""
    mark = found[0]
    if mark[0] == "`":
        return _span(text, found.start(), len(mark), runs)
    if mark == "<":
        return found.end(), "&lt;"
    if mark == "![":
        return found.end(), "!\\["
    if mark == "\\`":
        # The rest of a run after its first character must not be taken for a run of its own.
        rest = _RUN.match(text, found.start() + 1)
        assert rest is not None
        return rest.end(), "\\`" * len(rest[0])
    return found.end(), mark


def _span(text: str, start: int, length: int, runs: dict[int, list[int]]) -> tuple[int, str]:
    """Return a code span unchanged, if one begins here; else its backticks, escaped."""
    ends = runs.get(length, [])
    number = bisect_left(ends, start + length)
    if number < len(ends):
        end = ends[number] + length
        # In a table a bar ends the cell and with it the span.
        if text.find("|", start, end) < 0:
            return end, text[start:end]
    return start + length, "\\`" * length


def _words(text: str) -> str:
    if "&" in text:
        text = _ENTITY.sub("&amp;", text)
    return _LINK_CODE.sub(r"\\]", text) if "](" in text else text


# Plain text: who said what and when.
def write_text(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """Yield a line for each message's speaker, its words indented below."""
    row = recorded.metadata
    title = neutralise_line(row.title or "Untitled Session")
    times = f"{clock(row.created_at, options.zone)} to {clock(row.updated_at, options.zone)}"
    state = "" if row.status == "idle" else f", {row.status}"
    yield f"{title}\n{row.session_id}, {times}{state}\n".encode("utf-8", "replace")
    unanswered: dict[str | None, str] = {}
    for message in grouped(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
        _note_calls(unanswered, message)
        first = message[0]
        agent = f" ({neutralise_line(first.agent)})" if first.agent else ""
        head = f"[{clock(first.timestamp, options.zone)}] {first.role.capitalize()}{agent}:"
        words = [line for entry in message for line in _lines(entry)]
        if first.state != "whole":
            words.append("(cut off here)")
        shown = "\n".join([head, *(f"  {line}".rstrip() for line in words)])
        yield f"\n{shown}\n".encode("utf-8", "replace")
    if told := _end(recorded, unanswered):
        yield f"\n{neutralise_line(told)}\n".encode("utf-8", "replace")


def _lines(entry: Entry) -> list[str]:
    text, name = neutralise(entry.text), neutralise_line(entry.name)
    if entry.kind == "call":
        text = f"{name} {escape_json(as_json({} if entry.value is None else entry.value))}"
    elif entry.kind == "thinking":
        text = f"(thinking) {text}"
    elif entry.kind == "failure":
        text = f"{name or 'result'} failed:\n{text}"
    elif entry.kind == "result" and entry.name:
        text = f"{name}:\n{text}"
    elif entry.name:
        text = f"{name}: {text}" if text else name
    return text.split("\n")
