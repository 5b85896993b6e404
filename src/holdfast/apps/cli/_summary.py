"""A session on the screen: what it is, and what was said in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from holdfast.apps.cli._app import App
from holdfast.apps.render.page import CHANGE_STYLES, Span
from holdfast.apps.render.transcript import body, folded, heading, origin
from holdfast.apps.render.words import ago, clock, counted, day_time, latency, price
from holdfast.errors import NotFound
from holdfast.model import Event, SessionMetadata
from holdfast.replay import Entry, PairedEntry, edit_of, paired, read_transcript
from holdfast.session import now_ms

T = TypeVar("T")
_LABEL_CHARS = 10
_AROUND = 3
_FIRST_EVENTS = 5  # where an import says what it read
_EDIT_LINES = 20
_STYLES = {kind: kind for kind in ("user", "assistant", "thinking")}
_STYLES |= {"system": "warning", "call": "tool", "result": "tool", "failure": "bad", "note": "warning"}
_TOOL_KINDS = ("call", "result", "failure")
_MARKS = {"call": "→ ", "result": "← ", "failure": "✗ ", "note": "· "}


def print_header(app: App, row: SessionMetadata, shown: str | None = None) -> None:
    """Print the details of a session: title, times, sizes, place, and which part of it is ``shown``."""
    now = now_ms()
    app.out.line(Span(row.title or "(no title)", "strong"))
    tokens = f"{row.total_tokens:,}" if row.total_tokens else ""
    if row.tokens_estimated:
        tokens = f"about {tokens} (estimated)"
    merged = origin(app.library, row).merged
    fields = {
        "id": row.session_id,
        "created": _moment(row.created_at, now),
        "updated": _moment(row.updated_at, now),
        "messages": f"{row.message_count:,} in {counted(row.event_count, 'event')}",
        "tokens": tokens,
        "cost": price(row.cost),
        "model": row.model or "",
        "cwd": row.cwd or "",
        "from": _source(app, row.session_id),
        "tags": ", ".join(row.tags),
        "agent": row.agent_id or "",
        "parents" if merged else "parent": ", ".join(filter(None, (row.parent, merged))),
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
    row: SessionMetadata | None = None,
    last: int | None = None,
    first: int = 0,
    lost_from: int | None = None,
    turn: int | None = None,
    tools: bool = False,
    errors: bool = False,
    is_over: bool = True,
) -> None:
    """Print the conversation in the order of the log, or only the last or the selected steps.

    ``row``: the session, for a header. ``is_over``: nobody works on it any more, so a call without a result will get
    none. Raises NotFound for a turn that is not there, before anything is printed.
    """
    day, is_narrowed = "", turn is not None or tools or errors
    steps: Iterable[PairedEntry] = paired(read_transcript(events, first, lost_from))
    if turn is not None:
        steps = list(_of_turn(steps, turn))
    if row is not None:
        print_header(app, row)
    wanted = (step for step in steps if not tools or step.entry.kind in _TOOL_KINDS)
    shown = (step for step in wanted if not errors or step.went_wrong or (is_over and step.is_unfinished))
    for step in last_of(shown, last):
        entry = step.entry
        # The user's own day, so that a talk over midnight reads as it was lived.
        today = day_time(entry.timestamp)[:10]
        if today != day:
            day = today
            app.out.line()
            app.out.line(Span(today or "(no time)", "faint"))
        _print_entry(app, entry, full=full)
        _print_result(app, step, full=full)
        if is_over and step.is_open:
            app.out.line(Span(f"✗ {heading(entry)}", "bad"), Span("  no result was recorded", "faint"))
    if not day:
        app.out.line()
        app.out.line(Span("  No matching entries." if is_narrowed else "  Nothing was said yet.", "faint"))


def _of_turn(steps: Iterable[PairedEntry], turn: int) -> Iterator[PairedEntry]:
    """Yield the steps of one turn, counted from 1. Raises NotFound."""
    number, was_user = 0, False
    for step in steps:
        is_user = step.entry.kind == "user"
        number += is_user and not was_user
        was_user = is_user
        if number == turn:
            yield step
        elif number > turn:
            return
    if turn > number:
        raise NotFound(f"there is no turn {turn}; the last is {number}", remedy="Choose an earlier one.")


def print_around(app: App, events: Iterable[Event], at: int, *, full: bool, lost_from: int | None) -> None:
    """Print the entry of an event, marked and in full, with a few entries before and after it."""
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
        app.out.line(Span(f"  … {many}; drop --at to show all", "faint"))


def last_of(items: Iterator[T], count: int | None) -> Iterable[T]:
    """Yield the last ``count`` items, or all of them."""
    return items if count is None else deque(items, count)


def _print_entry(app: App, entry: Entry, *, full: bool, mark: str = "") -> None:
    mark += _MARKS.get(entry.kind, "")
    style = "bad" if PairedEntry(entry).went_wrong and entry.kind == "note" else _STYLES[entry.kind]
    app.out.line()
    app.out.line(Span(f"{mark}{heading(entry)}", style), Span(f"  {clock(entry.timestamp)} #{entry.seq}", "faint"))
    edit = edit_of(entry)
    if edit is None:
        _print_text(app, entry, full=full)
        return
    given, lines = edit
    app.out.text(given)
    for line in lines if full else lines[:_EDIT_LINES]:
        app.out.line(Span(f"  {line}", CHANGE_STYLES.get(line[:1], "faint")), hang=4)
    if not full and len(lines) > _EDIT_LINES:
        app.out.line(Span(f"  … {counted(len(lines) - _EDIT_LINES, 'more line')}; use --full to show all", "faint"))


def _print_result(app: App, step: PairedEntry, *, full: bool) -> None:
    """Print the result of a call right below it, with its duration."""
    if (result := step.result) is None:
        return
    took = f"  {latency(step.took_ms)}" if step.took_ms else ""
    told = Span(f"{_MARKS[result.kind]}{heading(result)}", _STYLES[result.kind])
    app.out.line(told, Span(f"{took}  #{result.seq}", "faint"))
    _print_text(app, result, full=full)


def _print_text(app: App, entry: Entry, *, full: bool) -> None:
    text, hidden = (body(entry), 0) if full else folded(entry)
    if text and entry.kind in ("user", "assistant"):
        app.out.markdown(text.rstrip("\n"))
    elif text:
        app.out.text(text.rstrip("\n"), style="thinking" if entry.kind == "thinking" else "")
    if hidden:
        app.out.line(Span(f"  … {counted(hidden, 'more character')}; use --full to show all", "faint"))


def _source(app: App, session_id: str) -> str:
    """Return the tool whose session was imported; empty for one that was recorded here."""
    for event in app.library.events(session_id, 0, _FIRST_EVENTS, types=["imported"]):
        tool = event.data.get("tool") or event.data.get("format")
        return tool if isinstance(tool, str) else ""
    return ""


def _moment(time_ms: int, now: int) -> str:
    return f"{day_time(time_ms)} ({ago(time_ms, now)})" if time_ms else ""
