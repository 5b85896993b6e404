"""Plain text: what was said, by whom and when."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats._harmless import harmless, harmless_line
from holdfast.formats._recorded import ExportOptions, Recorded, clock
from holdfast.formats._sayings import Part, Saying, as_json, sayings
from holdfast.security import escape_json

__all__ = ["write_text"]

_INDENT = "  "


def write_text(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """A line for each message's speaker, its words indented below."""
    row = recorded.metadata
    title = harmless_line(row.title or "Untitled Session")
    times = f"{clock(row.created_at, options.zone)} to {clock(row.updated_at, options.zone)}"
    yield f"{title}\n{row.session_id}, {times}\n".encode("utf-8", "replace")
    for saying in sayings(recorded.events()):
        yield f"\n{_shown(saying, options)}\n".encode("utf-8", "replace")


def _shown(saying: Saying, options: ExportOptions) -> str:
    agent = f" ({harmless_line(saying.agent)})" if saying.agent else ""
    who = f"{saying.role.capitalize()}{agent}"
    head = f"[{clock(saying.timestamp, options.zone)}] {who}:"
    words = [line for part in saying.parts for line in _lines(part)]
    if saying.cut_off:
        words.append("(cut off here)")
    return "\n".join([head, *(f"{_INDENT}{line}".rstrip() for line in words)])


def _lines(part: Part) -> list[str]:
    text = harmless(part.text)
    if part.kind == "call":
        text = f"{harmless_line(part.name)} {escape_json(as_json(part.value or {}))}"
    elif part.kind == "thinking":
        text = f"(thinking) {text}"
    elif part.kind == "media":
        text = f"[{harmless_line(part.name)} {text}]"
    elif part.kind == "result" and (part.name or part.failed):
        name = harmless_line(part.name) or "result"
        text = f"{name}{' failed' if part.failed else ''}:\n{text}"
    return text.split("\n")
