"""Markdown: a document that reads well and that nothing in the session can break."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats._harmless import harmless
from holdfast.formats._markdown_text import fenced, markdown_line, markdown_text
from holdfast.formats._recorded import ExportOptions, Recorded, clock
from holdfast.formats._sayings import Part, Saying, as_json, sayings
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
    for saying in sayings(recorded.events()):
        shown = _note(saying) if saying.role == "note" else _message(saying, options)
        yield f"\n{shown}\n".encode("utf-8", "replace")


def _head(recorded: Recorded, options: ExportOptions) -> str:
    row = recorded.metadata
    rows = {
        "Session ID": markdown_line(row.session_id),
        "Created": clock(row.created_at, options.zone),
        "Updated": clock(row.updated_at, options.zone),
        "Messages": str(row.message_count),
        "Total Tokens": str(row.total_tokens),
    }
    title = markdown_line(row.title) if row.title and row.title.strip() else _UNTITLED
    lines = [f"# {title}", *(f"**{name}:** {value}" for name, value in rows.items()), "---"]
    return "\n\n".join(lines) + "\n"


def _message(saying: Saying, options: ExportOptions) -> str:
    time = clock(saying.timestamp, options.zone, "%H:%M:%S")
    pieces = [f"## {_ROLES[saying.role]} [{time}]"]
    if saying.agent:
        pieces.append(f"*Agent: {markdown_line(saying.agent)}*")
    calls = [part for part in saying.parts if part.kind == "call"]
    pieces += [_part(part) for part in saying.parts if part.kind != "call"]
    if calls:
        pieces += ["**Tool Calls:**", _calls(calls)]
    if saying.cut_off:
        pieces.append("*(cut off here)*")
    return "\n\n".join(piece for piece in pieces if piece)


def _part(part: Part) -> str:
    if part.kind == "thinking":
        quoted = markdown_text(part.text).split("\n")
        # A code block begins at the margin, so thinking with one in it cannot be a quotation.
        if any(line.startswith(("```", "~~~")) for line in quoted):
            return "*Thinking:*\n\n" + fenced(part.text)
        return "\n".join(["> *Thinking:*", ">", *(f"> {line}" for line in quoted)])
    if part.kind == "result":
        name = f"**{markdown_line(part.name)}**" if part.name else "**Result**"
        failed = " (failed)" if part.failed else ""
        return f"{name}{failed}:\n\n{fenced(part.text)}"
    if part.kind == "media":
        return f"*[{markdown_line(part.name + ' ' + part.text).strip()}]*"
    return markdown_text(part.text)


def _calls(calls: list[Part]) -> str:
    shown = [
        ({"id": part.id} if part.id else {}) | {"tool": part.name, "args": part.value or {}}
        for part in calls
    ]
    return fenced(escape_json(as_json(shown, indent=2)), "json")


def _note(saying: Saying) -> str:
    text = harmless(saying.parts[0].text)
    first, *more = markdown_text(text).split("\n")
    if any(line.startswith(("```", "~~~")) for line in (first, *more)):
        return fenced(text)
    return "\n".join(f"> {line}" for line in (first, *more))
