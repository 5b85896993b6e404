"""A session's conversation as the page shows it: pages of items, and the end that still changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import Markup

from holdfast.apps.render.transcript import body, heading, lost_from, with_blobs
from holdfast.apps.web._page import as_html
from holdfast.library import Holdfast
from holdfast.model import Event
from holdfast.replay import Entry, Media, Transcript, read_transcript

_ITEMS = 120  # of a page, about
_EVENTS_MAX = 4_000  # of a page, with all the pieces of streamed texts
_AFTER = 40  # how much is shown behind a place that was asked for
_TEXT_CHARS_MAX = 20_000
_LINE_CHARS = 110
_BEGINS = ("user", "turn_start")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class ShownMedia(NamedTuple):
    """A picture or file in a message, by its place in it."""

    number: int
    kind: str
    media_type: str
    is_picture: bool


@dataclass
class ShownItem:
    """One thing that is shown: a message, a tool call with its result, or a note."""

    seq: int
    part: int
    time: int
    kind: str
    who: str
    text: str = ""
    html: Markup | None = None
    line: str = ""  # what a folded item shows
    result: ShownItem | None = None
    is_cut: bool = False
    is_stream: bool = False  # whether it is of several events, none of which has all of it
    is_writing: bool = False
    is_error: bool = False
    media: list[ShownMedia] = field(default_factory=list)


class Tail(NamedTuple):
    """The end of a conversation: what stays, and what may still change from ``next`` on."""

    settled: list[ShownItem]
    open: list[ShownItem]
    next: int
    is_behind: bool = False  # whether more came than this tells: the page has to be loaded anew


class ConversationPart(NamedTuple):
    """Some of a conversation: items of the events from ``start`` to before ``stop``."""

    items: list[ShownItem]
    start: int
    stop: int
    newest: int
    tail: Tail  # what may still change, if it is the end of a session that someone writes

    @property
    def has_earlier(self) -> bool:
        """Return whether anything precedes it."""
        return self.start > 0

    @property
    def is_end(self) -> bool:
        """Return whether nothing follows it yet."""
        return self.stop > self.newest


def read_window(
    hf: Holdfast, id: str, *, stop: int | None = None, at: int | None = None, is_live: bool = False
) -> ConversationPart:
    """Return the page that ends before ``stop``, or has event ``at``, or the last. Raises NotFound.

    ``is_live``: someone writes it, so that what is not complete is not cut off yet.
    """
    newest = next((event.seq for event in hf.events(id, reverse=True, limit=1)), -1)
    if at is not None:
        stop = at + _AFTER
    end = newest + 1 if stop is None else max(min(stop, newest + 1), 0)
    events: list[Event] = []
    shown = 0
    earlier = hf.events(id, stop=end, reverse=True)
    for event in earlier:
        events.append(event)
        shown += event.type != "delta"
        # A page begins with a turn if it can, so that calls and their results stay together.
        if len(events) >= _EVENTS_MAX or shown >= 3 * _ITEMS:
            break
        if shown >= _ITEMS and event.type in _BEGINS:
            break
    # Events that cannot be read belong to the page of what comes after them.
    before = next(earlier, None)
    start = 0 if before is None else before.seq + 1
    events = list(with_blobs(hf, id, reversed(events)))
    following = _first_open(events, end) if is_live and end > newest else end
    settled, rest = _parted(events, following)
    lost = lost_from(hf, id) if end > newest else None
    open_lost = lost if rest else None  # told once
    tail = Tail([], _items(rest, following, open_lost, is_writing=True), following)
    return ConversationPart(_items(settled, start, lost), start, end, newest, tail)


def read_tail(hf: Holdfast, id: str, start: int) -> Tail:
    """Return the entries from event ``start`` on. Raises NotFound."""
    # From the end: if more came than a page holds, the newest are what is looked at.
    newest = list(hf.events(id, start=start, reverse=True, limit=_EVENTS_MAX))
    events = list(with_blobs(hf, id, reversed(newest)))
    following = _first_open(events, start)
    settled, rest = _parted(events, following)
    first = events[0].seq if events else start
    return Tail(
        _items(settled, first),
        _items(rest, following, is_writing=True),
        following,
        is_behind=len(events) == _EVENTS_MAX and first > start,
    )


def media_of(event: Event) -> list[tuple[str, str, str]]:
    """Return kind, media type and base64 data of the pictures and files in a message or result."""
    entries = read_transcript([event], event.seq)
    return [(one.kind, one.media_type, one.source["data"]) for entry in entries for one in _files(entry)]


def _files(entry: Entry) -> Iterator[Media]:
    """Yield the media that a browser can show or save: those with their bytes."""
    for piece in entry.pieces:
        if isinstance(piece, Media) and isinstance(piece.source.get("data"), str):
            yield piece


def _parted(events: list[Event], seq: int) -> tuple[list[Event], list[Event]]:
    """Return the events before a number, and those from it on."""
    return [event for event in events if event.seq < seq], [event for event in events if event.seq >= seq]


def _first_open(events: list[Event], start: int) -> int:
    """Return where events that may still change begin: a stream without its message, a call without a result."""
    reader = Transcript(start)
    for event in events:
        reader.feed(event)
    return reader.open_from


def _items(events: list[Event], first: int, lost: int | None = None, *, is_writing: bool = False) -> list[ShownItem]:
    calls: dict[tuple[str | None, str | None], ShownItem] = {}
    items: list[ShownItem] = []
    seq, number = -1, 0
    for entry in read_transcript(events, first, lost):
        number = number if entry.seq == seq else 0
        seq = entry.seq
        item = _item(entry, number, heading(entry, is_live=is_writing))
        item.is_writing = is_writing and entry.state == "open"
        number += len(item.media)
        if entry.kind == "call" and not entry.again:
            calls[entry.run, entry.id] = item
        # A result is shown in its call; one whose call is on another page stands by itself.
        elif entry.kind in ("result", "failure"):
            call = calls.pop((entry.run, entry.id), None)
            if call is not None:
                call.result = item
                continue
        items.append(item)
    return items


def _item(entry: Entry, number: int, who: str) -> ShownItem:
    """Return an entry as an item; ``number`` files of its event are in items before it."""
    item = ShownItem(entry.seq, entry.part, entry.timestamp, entry.kind, who)
    item.is_stream = entry.state != "whole"
    item.is_error = entry.kind == "note" and entry.name == "error"
    shown = list(_files(entry))
    item.media = [
        ShownMedia(number + index, one.kind, one.media_type, one.media_type in PICTURES)
        for index, one in enumerate(shown)
    ]
    text = body(entry)
    for one in shown:  # it is shown, and need not be named
        text = text.replace(str(one), one.name, 1)
    item.is_cut = len(text) > _TEXT_CHARS_MAX
    item.text = text[:_TEXT_CHARS_MAX]
    item.line = " ".join(item.text[: 4 * _LINE_CHARS].split())[:_LINE_CHARS]
    if entry.kind in ("user", "assistant", "system", "thinking"):
        item.html = as_html(item.text)
    return item
