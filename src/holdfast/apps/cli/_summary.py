"""A session on the screen: what it is, and what was said in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from holdfast.apps.cli._app import App
from holdfast.apps.render.page import Span
from holdfast.apps.render.transcript import body, folded, heading
from holdfast.apps.render.words import ago, clock, counted, day_time
from holdfast.model import Event, SessionMetadata
from holdfast.replay import Entry, read_transcript
from holdfast.session import now_ms

T = TypeVar("T")
_LABEL_CHARS = 10
_AROUND = 3
_STYLES = {kind: kind for kind in ("user", "assistant", "thinking")}
_STYLES |= {"system": "warning", "call": "tool", "result": "tool", "failure": "bad", "note": "warning"}
_MARKS = {"call": "→ ", "result": "← ", "failure": "✗ ", "note": "· "}


def print_header(app: App, row: SessionMetadata, shown: str | None = None) -> None:
    """What the session is: title, times, sizes, place, and which part of it is ``shown``."""
    now = now_ms()
    app.out.line(Span(row.title or "(no title)", "strong"))
    tokens = f"{row.total_tokens:,}" if row.total_tokens else ""
    if row.tokens_estimated:
        tokens = f"about {tokens} (an estimate: nobody told)"
    fields = {
        "id": row.session_id,
        "created": _moment(row.created_at, now),
        "updated": _moment(row.updated_at, now),
        "messages": f"{row.message_count:,} in {counted(row.event_count, 'event')}",
        "tokens": tokens,
        "tags": ", ".join(row.tags),
        "agent": row.agent_id or "",
        "parent": row.parent or "",
        "state": row.status if row.state == "ok" else row.state,
        "location": app.library.location(row.session_id),
        "shown": shown or "",
    }
    for name, value in fields.items():
        if value:
            app.out.line(Span(f"  {name:{_LABEL_CHARS}}", "faint"), value, hang=_LABEL_CHARS + 2)


def print_conversation(
    app: App,
    events: Iterable[Event],
    *,
    full: bool,
    last: int | None = None,
    first: int = 0,
    lost_from: int | None = None,
) -> None:
    """Everything that was said and done in the order of the log, or only the last entries."""
    day = ""
    for entry in last_of(read_transcript(events, first, lost_from), last):
        # The user's own day, so that a talk over midnight reads as it was lived.
        today = day_time(entry.timestamp)[:10]
        if today != day:
            day = today
            app.out.line()
            app.out.line(Span(today or "(no time)", "faint"))
        _print_entry(app, entry, full=full)
    if not day:
        app.out.line()
        app.out.line(Span("  Nothing was said yet.", "faint"))


def print_around(app: App, events: Iterable[Event], at: int, *, full: bool, lost_from: int | None) -> None:
    """What was said at an event, marked and whole, with a few entries before and after it."""
    # In one pass with a few entries held: a log may be larger than memory.
    before: deque[Entry] = deque(maxlen=_AROUND + 1)
    after: list[Entry] = []
    skipped = left = 0
    for entry in read_transcript(events, lost_from=lost_from):
        if not before or entry.seq <= at:
            skipped += len(before) > _AROUND
            before.append(entry)
        elif len(after) < _AROUND:
            after.append(entry)
        else:
            left += 1
    _print_left_out(app, skipped, "earlier")
    for entry in (*before, *after):
        is_meant = entry is before[-1]
        _print_entry(app, entry, full=full or is_meant, mark="▶ " if is_meant else "")
    _print_left_out(app, left, "later")


def _print_left_out(app: App, count: int, which: str) -> None:
    if count:
        app.out.line()
        many = counted(count, f"{which} entry", f"{which} entries")
        app.out.line(Span(f"  … {many}; all without --at", "faint"))


def last_of(items: Iterator[T], count: int | None) -> Iterable[T]:
    """The last ``count`` items, or all of them."""
    return items if count is None else deque(items, count)


def _print_entry(app: App, entry: Entry, *, full: bool, mark: str = "") -> None:
    mark += _MARKS.get(entry.kind, "")
    app.out.line()
    app.out.line(
        Span(f"{mark}{heading(entry)}", _STYLES[entry.kind]), Span(f"  {clock(entry.timestamp)} #{entry.seq}", "faint")
    )
    text, hidden = (body(entry), 0) if full else folded(entry)
    if text:
        app.out.text(text.rstrip("\n"), style="thinking" if entry.kind == "thinking" else "")
    if hidden:
        app.out.line(Span(f"  … {counted(hidden, 'more character')}; all with --full", "faint"))


def _moment(time_ms: int, now: int) -> str:
    return f"{day_time(time_ms)} ({ago(time_ms, now)})" if time_ms else ""
