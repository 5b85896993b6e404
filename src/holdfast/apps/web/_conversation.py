"""A session's conversation as the page shows it: pages of items, and the end that still changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from holdfast.apps.shown.transcript import Entry, transcript
from holdfast.apps.web._markdown import as_html
from holdfast.errors import HoldfastError
from holdfast.model import Event

if TYPE_CHECKING:
    from holdfast.library import Holdfast

__all__ = ["Item", "Media", "Window", "media_of", "read_tail", "read_window"]

_ITEMS = 120  # of a page, about
_EVENTS_MAX = 4_000  # of a page, with all the pieces of streamed texts
_AFTER = 40  # how much is shown behind a place that was asked for
_TEXT_CHARS_MAX = 20_000
_LINE_CHARS = 110
_BEGINS = ("user", "turn_start")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_CUT_OFF = ", cut off"


class Media(NamedTuple):
    """A picture or file in a message, by its place in it."""

    number: int
    kind: str
    media_type: str
    is_picture: bool


@dataclass
class Item:
    """One thing that is shown: a message, a tool call with its result, or a note."""

    seq: int
    time: int
    kind: str
    who: str
    text: str = ""
    html: Markup | None = None
    line: str = ""
    """What a folded item shows."""
    result: Item | None = None
    is_cut: bool = False
    is_writing: bool = False
    media: list[Media] = field(default_factory=list)


class Tail(NamedTuple):
    """The end of a conversation: what stays, and what may still change from ``next`` on."""

    settled: list[Item]
    open: list[Item]
    next: int
    is_behind: bool = False
    """Whether more came than this tells: the page has to be loaded anew."""


class Window(NamedTuple):
    """Some of a conversation: items of the events from ``start`` to before ``stop``."""

    items: list[Item]
    start: int
    stop: int
    newest: int
    tail: Tail
    """What may still change, if it is the end of a session that someone writes."""

    @property
    def has_earlier(self) -> bool:
        """Whether there is something before it."""
        return self.start > 0

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after it yet."""
        return self.stop > self.newest


def read_window(
    hf: Holdfast, id: str, *, stop: int | None = None, at: int | None = None, is_live: bool = False
) -> Window:
    """The page that ends before ``stop``, or has event ``at``, or the last. Raises NotFound.

    ``is_live``: someone writes it, so that what is not complete is not cut off yet.
    """
    newest = next((event.seq for event in hf.events(id, reverse=True, limit=1)), -1)
    if at is not None:
        stop = at + _AFTER
    end = newest + 1 if stop is None else max(min(stop, newest + 1), 0)
    events: list[Event] = []
    shown = 0
    for event in hf.events(id, stop=end, reverse=True):
        events.append(event)
        shown += event.type != "delta"
        # A page begins with a turn if it can, so that calls and their results stay together.
        if len(events) >= _EVENTS_MAX or shown >= 3 * _ITEMS:
            break
        if shown >= _ITEMS and event.type in _BEGINS:
            break
    events.reverse()
    start = events[0].seq if events else 0
    following = _first_open(events, end) if is_live and end > newest else end
    settled = [event for event in events if event.seq < following]
    rest = [event for event in events if event.seq >= following]
    tail = Tail([], _items(rest, following, is_writing=True), following)
    return Window(_items(settled, start), start, end, newest, tail)


def read_tail(hf: Holdfast, id: str, start: int) -> Tail:
    """What came from event ``start`` on. Raises NotFound."""
    events = list(hf.events(id, start=start, reverse=True, limit=_EVENTS_MAX))[::-1]
    following = _first_open(events, start)
    settled = [event for event in events if event.seq < following]
    rest = [event for event in events if event.seq >= following]
    first = events[0].seq if events else start
    return Tail(
        _items(settled, first),
        _items(rest, following, is_writing=True),
        following,
        is_behind=len(events) == _EVENTS_MAX and first > start,
    )


def media_of(event: Event) -> list[tuple[str, str, str]]:
    """Kind, media type and base64 data of the pictures and files in a message or result."""
    data = _data(event)
    content = data.get("content", data.get("result"))
    blocks = content if isinstance(content, list) else []
    found = []
    for block in blocks:
        source = block.get("source") if isinstance(block, dict) else None
        if isinstance(source, dict) and isinstance(source.get("data"), str):
            found.append((str(block.get("type")), str(source.get("media_type")), source["data"]))
    return found


def _first_open(events: list[Event], start: int) -> int:
    """Where what may still change begins: a stream without its message, a call without result."""
    waiting: dict[tuple[str, str | None, str], int] = {}
    for event in events:
        data = _data(event)
        if event.type == "delta":
            waiting.setdefault(("stream", event.run, str(data.get("kind"))), event.seq)
        elif event.type in ("assistant", "thinking", "turn_end", "interrupted", "agent_error"):
            ended = (
                ("call", "stream") if event.type not in ("assistant", "thinking") else ("stream",)
            )
            waiting = {key: seq for key, seq in waiting.items() if key[0] not in ended}
        elif event.type == "tool_call":
            waiting["call", None, str(data.get("id"))] = event.seq
        elif event.type == "tool_result":
            waiting.pop(("call", None, str(data.get("toolCallId"))), None)
    return min(waiting.values(), default=events[-1].seq + 1 if events else start)


def _items(events: list[Event], first: int, *, is_writing: bool = False) -> list[Item]:
    by_seq = {event.seq: event for event in events}
    calls: dict[str, Item] = {}
    items: list[Item] = []
    for entry in transcript(events, first):
        event = by_seq.get(entry.seq)
        item = _item(entry, event, is_writing=is_writing)
        data = {} if event is None else _data(event)
        if entry.kind == "call":
            calls[str(data.get("id"))] = item
        elif entry.kind in ("result", "failure"):
            call = calls.pop(str(data.get("toolCallId")), None)
            if call is not None:
                call.result = item
                continue
        items.append(item)
    return items


def _item(entry: Entry, event: Event | None, *, is_writing: bool) -> Item:
    writes = is_writing and entry.who.endswith(_CUT_OFF)
    who = entry.who.removesuffix(_CUT_OFF) if writes else entry.who
    item = Item(entry.seq, entry.timestamp, entry.kind, who, is_writing=writes)
    if event is not None:
        item.media = list(_named(media_of(event)))
    text = entry.text
    for media in item.media:  # it is shown, and need not be named
        text = text.replace(f"[{media.kind} {media.media_type}]", "", 1)
    item.is_cut = len(text) > _TEXT_CHARS_MAX
    item.text = text[:_TEXT_CHARS_MAX]
    item.line = " ".join(item.text[: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
    if entry.kind in ("user", "assistant", "system", "thinking"):
        item.html = as_html(item.text)
    return item


def _named(found: Iterable[tuple[str, str, str]]) -> Iterable[Media]:
    for index, (kind, media_type, _) in enumerate(found):
        yield Media(index, kind, media_type, media_type in _PICTURES)


def _data(event: Event) -> dict[str, Any]:
    try:
        return event.data
    except HoldfastError:
        return {}
