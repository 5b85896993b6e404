"""The pages of one session. Nothing here changes anything."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.render.transcript import family, origin, with_blobs
from holdfast.apps.render.words import forest
from holdfast.apps.web._conversation import PICTURES, media_of, read_tail, read_window
from holdfast.apps.web._inbox import questions_of
from holdfast.apps.web._page import (
    going_on,
    guest_of,
    page,
    raw_in_words,
    site_of,
    todo_in_words,
    value_in_words,
    wants_part,
)
from holdfast.errors import DataError, HoldfastError, NotFound, SecurityError
from holdfast.library import Holdfast
from holdfast.model import Event, SessionMetadata
from holdfast.replay import State, as_text

_EVENTS = 150
_JSON_CHARS_MAX = 12_000
_RAW_BYTES_MAX = 4 * _JSON_CHARS_MAX
_WHOLE_CHARS_MAX = 1_000_000
_LINE_CHARS = 140
_SANDBOX = "default-src 'none'; sandbox"
# How a browser is handed each format: never as something that it would run.
FORMATS = {
    "markdown": ("Markdown", "md"),
    "html": ("Web page", "html"),
    "text": ("Plain text", "txt"),
    "json": ("JSON", "json"),
    "jsonl": ("JSON lines", "jsonl"),
    "bundle": ("Bundle, with everything", "holdfast"),
    "claude-code": ("For Claude Code", "jsonl"),
    "codex": ("For Codex", "jsonl"),
    "gemini-cli": ("For Gemini CLI", "json"),
    "opencode": ("For opencode", "json"),
    "anthropic": ("Anthropic messages", "json"),
    "openai": ("OpenAI messages", "json"),
}


class TimelineRow(NamedTuple):
    """One event of the timeline."""

    seq: int
    time: int
    type: str
    summary: str
    json: str
    is_cut: bool


def conversation_page(request: Request) -> Response:
    """Show the conversation, newest last, or the part of it around one event."""
    site, row = site_of(request), _row(request)
    at = _number(request, "at")
    window = read_window(site.hf, row.session_id, at=at, is_live=row.open)
    is_answering = site.talks.is_running(row.session_id)
    questions = questions_of(site, row.session_id, row.status)
    goes_on = None if is_answering else going_on(site, row.session_id, row.status, asks=bool(questions))
    shown = {"window": window, "at": at, "is_answering": is_answering, "goes_on": goes_on, "questions": questions}
    return page(request, "conversation.html", row=row, formats=FORMATS, **shown)


def earlier_part(request: Request) -> Response:
    """Return the items before those that are shown."""
    row = _row(request)
    window = read_window(site_of(request).hf, row.session_id, stop=_number(request, "stop"))
    return page(request, "part/earlier.html", row=row, window=window)


def tail_part(request: Request) -> Response:
    """Return the entries since the page was made."""
    row = _row(request)
    tail = read_tail(site_of(request).hf, row.session_id, _number(request, "from") or 0)
    return page(request, "part/tail.html", row=row, tail=tail)


def timeline_page(request: Request) -> Response:
    """Return every event, with its raw JSON folded."""
    hf, row = site_of(request).hf, _row(request)
    kind = request.query_params.get("type", "")[:100]
    newest = next((event.seq for event in hf.events(row.session_id, reverse=True, limit=1)), -1)
    start = _number(request, "from")
    if start is None:
        start = 0 if kind else max(newest + 1 - _EVENTS, 0)
    events = list(hf.events(row.session_id, start, types=(kind,) if kind else None, limit=_EVENTS))
    # It reads the whole log, for a picture that says little of a very long one.
    turns = hf.timeline(row.session_id).turns if not kind and newest < 20_000 else []
    last = events[-1].seq if events else newest
    return page(
        request,
        "timeline.html",
        row=row,
        formats=FORMATS,
        lines=[_line(event) for event in events],
        kind=kind,
        start=start,
        earlier=max(start - _EVENTS, 0) if start > 0 and not kind else None,
        later=last + 1 if len(events) == _EVENTS and last < newest else None,
        newest=newest,
        turns=turns[-40:],
        longest=max((turn.duration_ms for turn in turns[-40:]), default=0) or 1,
    )


def event_page(request: Request) -> Response:
    """Return one event, whole."""
    row, event = _row(request), _event(request)
    text = _json(event)
    shown = {"event": event, "text": text[:_WHOLE_CHARS_MAX], "is_cut": len(text) > _WHOLE_CHARS_MAX}
    return page(request, "event.html", row=row, formats=FORMATS, **shown)


def event_json(request: Request) -> Response:
    """Return one event as a file."""
    event = _event(request)
    return _file(_json(event).encode(), f"{_id(request)}-{event.seq}.json")


def media_file(request: Request) -> Response:
    """Return a picture of a message as itself; anything else only as a file to keep."""
    media = media_of(_event(request))
    index = request.path_params["index"]
    if index >= len(media):
        raise NotFound("there is no such attachment", remedy="Go back to the conversation.")
    _, kind, data = media[index]
    try:
        content = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError) as error:
        raise NotFound("the attachment cannot be decoded") from error
    # Only types that cannot run anything; the sandbox holds even if one of them could.
    if kind in PICTURES:
        return Response(content, media_type=kind, headers={"content-security-policy": _SANDBOX})
    return _file(content, f"{_id(request)}-{request.path_params['seq']}-{index}.bin")


def _state_at(hf: Holdfast, id: str, at: int) -> State:
    """Return the state after an event; of a session without any, that of now."""
    return hf.state(id, at=at if at >= 0 else None)


def state_page(request: Request) -> Response:
    """Return the state at any moment, and what changed since another one."""
    hf, row = site_of(request).hf, _row(request)
    newest = hf.state(row.session_id).seq
    asked = _number(request, "at")
    at = newest if asked is None else min(asked, newest)
    since = _number(request, "since")
    state = _state_at(hf, row.session_id, at)
    before = None if since is None else _state_at(hf, row.session_id, min(since, newest))
    parts: dict[str, list[Fact]] = {}
    for fact in facts(state):
        parts.setdefault(fact.part, []).append(fact)
    values: dict[str, Any] = {"row": row, "at": at, "since": since, "newest": newest, "moment": state.updated_at}
    values |= {"parts": parts, "differences": None if before is None else differences(before, state)}
    if wants_part(request):
        return page(request, "part/state.html", **values)
    return page(request, "state.html", **values, formats=FORMATS, snapshots=hf.snapshots(row.session_id)[:50])


def branches_page(request: Request) -> Response:
    """Return the session among those that it came from and that came from it."""
    row = _row(request)
    family = read_family(site_of(request).hf, row.session_id)
    return page(request, "branches.html", row=row, formats=FORMATS, family=family)


def compare_page(request: Request) -> Response:
    """Show two sessions side by side."""
    hf = site_of(request).hf
    a, b = (request.query_params.get(name, "").strip()[:200] for name in "ab")
    if not a or not b:
        return page(request, "compare.html", found=None, a=a, b=b, recent=hf.list(30))
    return page(request, "compare.html", found=hf.compare(a, b), a=a, b=b, recent=[])


def health_page(request: Request) -> Response:
    """Return the page with a verification of every byte, in plain words."""
    hf, id, row = site_of(request).hf, _id(request), _row(request)
    report, trouble = None, None
    try:
        hf.state(id)  # refuses a newer format, whose bytes cannot be judged
        report = hf.verify(id)
    except NotFound:
        raise
    except (DataError, SecurityError) as error:
        trouble = error
    about = {"report": report, "trouble": trouble, "where": hf.location(id)}
    return page(request, "health.html", row=row, formats=FORMATS, **about)


def export_file(request: Request) -> Response:
    """Return the session in another format, as a file."""
    format = request.query_params.get("format", "markdown")
    if format not in FORMATS:
        raise NotFound(f"there is no format {format[:40]!a}", remedy="Choose one of the menu.")
    found = site_of(request).hf.export(_id(request), format)
    content = found if isinstance(found, bytes) else str(found).encode("utf-8", "replace")
    return _file(content, f"{_id(request)}.{FORMATS[format][1]}")


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _row(request: Request) -> SessionMetadata:
    guest_of(request)
    return site_of(request).hf.info(_id(request))


def _number(request: Request, name: str) -> int | None:
    """Return a position from the query; None for none, and for what is none."""
    given = request.query_params.get(name, "")
    return min(int(given), 2**53) if given.isascii() and given.isdecimal() and len(given) < 17 else None


def _event(request: Request) -> Event:
    hf, seq = site_of(request).hf, request.path_params["seq"]
    found = next(hf.events(_id(request), start=seq, stop=seq + 1), None)
    if found is None:
        raise NotFound(f"there is no event {seq} in this session, or it cannot be read")
    return next(with_blobs(hf, _id(request), [found]))


def _line(event: Event) -> TimelineRow:
    raw = bytes(event.raw)
    is_long = len(raw) > _RAW_BYTES_MAX
    # Making a very long one beautiful takes long, and only its beginning is shown.
    text = raw[:_RAW_BYTES_MAX].decode("utf-8", "replace") if is_long else _json(event)
    try:
        data = event.data
    except HoldfastError:
        data = {}
    is_cut = is_long or len(text) > _JSON_CHARS_MAX
    return TimelineRow(event.seq, event.timestamp, event.type, _summary(data), text[:_JSON_CHARS_MAX], is_cut)


def _summary(data: dict[str, Any]) -> str:
    for name in ("content", "tool", "result", "title", "name", "reason", "summary", "tags", "tag"):
        if data.get(name):
            text = as_text(data[name])
            return " ".join(text[: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
    return ", ".join(str(name) for name in data)[:_LINE_CHARS]


def _json(event: Event) -> str:
    try:
        data: Any = event.data
    except HoldfastError as error:
        data = {"unreadable": error.message}
    shown = {"seq": event.seq, "type": event.type, "timestamp": event.timestamp}
    shown |= {name: value for name in ("run", "key") if (value := getattr(event, name)) is not None}
    return msgspec.json.format(msgspec.json.encode({**shown, "data": data}), indent=2).decode()


def _file(content: bytes, name: str) -> Response:
    """Return bytes that a browser keeps and never shows; ids are letters, digits, dots and dashes only."""
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": _SANDBOX}
    return Response(content, media_type="application/octet-stream", headers=headers)


# Sessions that come from one another, as a graph to draw.
_MEMBERS_MAX = 200
_ROW = 64
_COLUMN = 24
_LEFT = 20
_DEPTH_MAX = 8


class Member(NamedTuple):
    """One session of the family and where its point is drawn."""

    row: SessionMetadata
    x: int
    y: int
    at: int | None  # the last event that it shares with its parent
    merged: SessionMetadata | None  # what else was merged into it
    is_here: bool


class Family(NamedTuple):
    """The graph."""

    members: list[Member]
    edges: list[str]  # the paths from parents to their children, as SVG writes them
    width: int
    height: int
    is_cut: bool
    short: dict[str, str]  # the id of each member, cut short: forks have titles that are alike


def read_family(hf: Holdfast, id: str) -> Family:
    """Return every session that comes from the same first one, while there is room. Raises NotFound."""
    rows, is_cut = family(hf, id, _MEMBERS_MAX)
    parents = {row.session_id: row.parent for row in rows}
    depths: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    members, edges = [], []
    others: list[tuple[str, str]] = []
    for index, (_, row) in enumerate(forest(rows)):
        parent = parents.get(row.session_id)
        depth = depths.get(parent or "", -1) + 1
        depths[row.session_id] = depth
        x, y = _LEFT + min(depth, _DEPTH_MAX) * _COLUMN, index * _ROW + _ROW // 2
        places[row.session_id] = (x, y)
        if parent in places:
            x1, y1 = places[parent or ""]
            edges.append(f"M{x1} {y1}V{y}" if x1 == x else f"M{x1} {y1}V{y - 14}Q{x1} {y} {x1 + 14} {y}H{x}")
        found = origin(hf, row)
        merged = None if found.merged is None else _known(hf, found.merged)
        others += [] if merged is None else [(merged.session_id, row.session_id)]
        members.append(Member(row, x, y, found.at, merged, row.session_id == id))
    # The second parent of a merge may stand below it.
    for other, child in others:
        if other in places:
            (x1, y1), (x2, y2) = places[other], places[child]
            edges.append(f"M{x1} {y1}C{x1 + _COLUMN} {y1} {x2 + _COLUMN} {y2} {x2} {y2}")
    width = max(member.x for member in members) + _LEFT
    shown = {one.row.session_id for one in members} | {one.row.parent for one in members if one.row.parent}
    shown |= {one.merged.session_id for one in members if one.merged}
    return Family(members, edges, width, len(members) * _ROW, is_cut, hf.short_ids(shown))


def _known(hf: Holdfast, id: str) -> SessionMetadata:
    """Return the row of a session; for one that is gone, its id alone."""
    try:
        return hf.info(id)
    except HoldfastError:
        return SessionMetadata(session_id=id)


# A session's state as lines that people can read, and what differs between two moments. Pure.
_SIMPLE = (
    ("Session", "title", "title"),
    ("Session", "title_auto", "automatic title"),
    ("Session", "tags", "tags"),
    ("Session", "agent_id", "agent"),
    ("Session", "agent_type", "type of agent"),
    ("Session", "instructions", "instructions"),
    ("Session", "task", "task"),
    ("Session", "suspended", "waits for someone"),
    ("Figures", "event_count", "events"),
    ("Figures", "message_count", "messages"),
    ("Figures", "turns", "turns"),
    ("Links", "links", ""),
    ("Metadata", "metadata", ""),
    ("Configuration", "config", ""),
    ("Tokens", "usage_by_model", ""),
    ("Plugins", "plugins", ""),
    ("Under way", "open_turns", ""),
    ("Under way", "pending_calls", ""),
    ("Under way", "deferred_calls", ""),
)


class Fact(NamedTuple):
    """One line of a state."""

    part: str
    name: str
    value: str


class FactChange(NamedTuple):
    """The old and new value of one fact; ``kind`` is added, removed or changed."""

    part: str
    name: str
    before: str
    after: str
    kind: str


def differences(before: State, after: State) -> list[FactChange]:
    """Return the facts that were added, removed and changed between two states, in the order of ``facts``."""
    old = {fact[:2]: fact.value for fact in facts(before)}
    new = {fact[:2]: fact.value for fact in facts(after)}
    found = []
    for part, name in dict.fromkeys([*new, *old]):
        was, is_now = old.get((part, name)), new.get((part, name))
        if was != is_now:
            kind = "added" if was is None else "removed" if is_now is None else "changed"
            found.append(FactChange(part, name, was or "", is_now or "", kind))
    return found


def facts(state: State) -> Iterator[Fact]:
    """Yield everything that a state holds, part by part; what is empty is left out."""
    for index, todo in enumerate(state.todos):
        yield Fact("Todos", str(index + 1), todo_in_words(todo))
    for name, raw in state.encoded.items():
        yield Fact("Variables", name, _recorded(raw))
    for key, entry in state.memory.items():
        about = f"  ({entry.description})" if entry.description else ""
        yield Fact("Memory", key, _recorded(entry.raw) + about)
    for part, field, name in _SIMPLE:
        value = msgspec.to_builtins(getattr(state, field), enc_hook=raw_in_words)
        if not name and isinstance(value, dict):
            for key, one in value.items():
                yield Fact(part, str(key), value_in_words(one))
        elif value not in (None, "", [], {}, False):
            yield Fact(part, name or field, value_in_words(value))


def _recorded(raw: msgspec.Raw) -> str:
    """Return a value as it was recorded; a text without its quotes."""
    try:
        return value_in_words(msgspec.json.decode(raw))
    except msgspec.DecodeError:
        return raw_in_words(raw)
