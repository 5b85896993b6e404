"""Plain text: what was said, by whom and when."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats._escapes import harmless, harmless_line
from holdfast.formats._view import ExportOptions, Recorded, clock
from holdfast.replay import Entry, as_json, grouped, read_transcript
from holdfast.security import escape_json

__all__ = ["write_text"]

_INDENT = "  "


def write_text(recorded: Recorded, options: ExportOptions) -> Iterator[bytes]:
    """A line for each message's speaker, its words indented below."""
    row = recorded.metadata
    title = harmless_line(row.title or "Untitled Session")
    times = f"{clock(row.created_at, options.zone)} to {clock(row.updated_at, options.zone)}"
    yield f"{title}\n{row.session_id}, {times}\n".encode("utf-8", "replace")
    for message in grouped(read_transcript(recorded.events(), lost_from=recorded.lost_from())):
        yield f"\n{_shown(message, options)}\n".encode("utf-8", "replace")


def _shown(message: list[Entry], options: ExportOptions) -> str:
    first = message[0]
    agent = f" ({harmless_line(first.agent)})" if first.agent else ""
    head = f"[{clock(first.timestamp, options.zone)}] {first.role.capitalize()}{agent}:"
    words = [line for entry in message for line in _lines(entry)]
    if first.state != "whole":
        words.append("(cut off here)")
    return "\n".join([head, *(f"{_INDENT}{line}".rstrip() for line in words)])


def _lines(entry: Entry) -> list[str]:
    text, name = harmless(entry.text), harmless_line(entry.name)
    if entry.kind == "call":
        value = {} if entry.value is None else entry.value
        text = f"{name} {escape_json(as_json(value))}"
    elif entry.kind == "thinking":
        text = f"(thinking) {text}"
    elif entry.kind == "failure":
        text = f"{name or 'result'} failed:\n{text}"
    elif entry.name:
        text = f"{name}:\n{text}" if entry.kind == "result" else _sentence(name, text)
    return text.split("\n")


def _sentence(head: str, text: str) -> str:
    return f"{head}: {text}" if text else head
