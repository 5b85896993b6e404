"""Markdown: a document that reads well and that nothing in the session can break."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats._escapes import fenced, harmless, markdown_line, markdown_text
from holdfast.formats._view import ExportOptions, Recorded, clock
from holdfast.replay import Entry, Media, as_json, grouped, read_transcript
from holdfast.security import escape_json

__all__ = ["write_markdown"]

_ROLES = {
    "user": "👤 User",
    "assistant": "🤖 Assistant",
    "system": "⚙️ System",
    "tool": "🔧 Tool",
}
_UNTITLED = "Untitled Session"


def write_markdown(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """A head with what is known of the session, then a section for each message."""
    yield _head(recorded, options).encode("utf-8", "replace")
    for message in grouped(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
        is_note = message[0].kind == "note"
        shown = _note(message[0]) if is_note else _message(message, options)
        yield f"\n{shown}\n".encode("utf-8", "replace")


def _head(recorded: Recorded, options: ExportOptions) -> str:
    row = recorded.metadata
    rows = {
        "Session ID": markdown_line(row.session_id),
        "Created": clock(row.created_at, options.zone),
        "Updated": clock(row.updated_at, options.zone),
        "Messages": str(row.message_count),
        "Total Tokens": f"{'about ' if row.tokens_estimated else ''}{row.total_tokens}",
    }
    title = markdown_line(row.title) if row.title and row.title.strip() else _UNTITLED
    lines = [f"# {title}", *(f"**{name}:** {value}" for name, value in rows.items()), "---"]
    return "\n\n".join(lines) + "\n"


def _message(message: list[Entry], options: ExportOptions) -> str:
    first = message[0]
    time = clock(first.timestamp, options.zone, "%H:%M:%S")
    pieces = [f"## {_ROLES[first.role]} [{time}]"]
    if first.agent:
        pieces.append(f"*Agent: {markdown_line(first.agent)}*")
    calls = [entry for entry in message if entry.kind == "call"]
    pieces += [_part(entry) for entry in message if entry.kind != "call"]
    if calls:
        pieces += ["**Tool Calls:**", _calls(calls)]
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
        f"*{markdown_line(str(piece))}*" if isinstance(piece, Media) else markdown_text(piece)
        for piece in entry.pieces
    )


def _calls(calls: list[Entry]) -> str:
    shown = [
        ({"id": entry.id} if entry.id else {})
        | {"tool": entry.name, "args": {} if entry.value is None else entry.value}
        for entry in calls
    ]
    return fenced(escape_json(as_json(shown, indent=2)), "json")


def _note(entry: Entry) -> str:
    text = harmless(f"{entry.name}: {entry.text}" if entry.pieces else entry.name)
    first, *more = markdown_text(text).split("\n")
    if any(line.startswith(("```", "~~~")) for line in (first, *more)):
        return fenced(text)
    return "\n".join(f"> {line}" for line in (first, *more))
