"""Entries of a transcript in words: who says it, what it says, and how much of it at first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import Event, SessionMetadata, is_id
from holdfast.replay import Entry, arguments
from holdfast.session import resolve_blobs, unreadable_from

_FOLD_LINES = 5
_FOLD_CHARS = 500


def heading(entry: Entry, *, is_live: bool = False, first: int = 0) -> str:
    """Return who says it, or what happens.

    ``is_live``: someone is still writing. ``first`` is where the part of the log begins that was
    read: the call of a result may be before it.
    """
    if entry.kind in ("result", "failure"):
        return entry.name or ("an earlier call" if first else "a call that is not in the log")
    who = entry.name or entry.kind
    if entry.agent is not None:
        who = f"{who} ({entry.agent})"
    if entry.again:
        return f"{who}, the same call"
    if entry.state == "whole":
        return who
    return f"{who} …" if is_live and entry.state == "open" else f"{who}, cut off"


def body(entry: Entry) -> str:
    """Return what an entry says: the words, or the arguments of a call."""
    return arguments(entry.value) if entry.kind == "call" else entry.text


def is_long_winded(entry: Entry) -> bool:
    """Return whether an entry is of a kind that is shown shortened at first."""
    return entry.kind not in ("user", "assistant", "system") and entry.state == "whole"


def folded(entry: Entry) -> tuple[str, int]:
    """Return what an entry says cut to a few lines, and how many characters that hides."""
    text = body(entry)
    if not is_long_winded(entry):
        return text, 0
    head = "\n".join(text.split("\n", _FOLD_LINES)[:_FOLD_LINES])[:_FOLD_CHARS].rstrip()
    return head, max(len(text.rstrip()) - len(head), 0)


def with_blobs(hf: Holdfast, id: str, events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of a session with what is kept beside its log, as far as it is there."""
    documents = hf.store.documents(f"sessions/{id}")
    for event in events:
        try:
            yield from resolve_blobs([event], documents)
        except HoldfastError:
            yield event


def lost_from(hf: Holdfast, id: str) -> int | None:
    """Return where a damaged end of a session's log begins; None if it is not damaged there."""
    key = f"sessions/{id}"
    return unreadable_from(hf.store.log(key), hf.store.documents(key))


def family(hf: Holdfast, id: str, most: int) -> tuple[list[SessionMetadata], bool]:
    """Return the sessions of the same first one as ``id``, and whether some are left out. Raises NotFound."""
    first = _first(hf, id)
    found = {first.session_id: first}
    waiting = [first.session_id]
    while waiting and len(found) < most:
        # The near relatives first, so that those are shown where there is no room for all.
        for row in hf.list(most, parent=waiting.pop(0)):
            if row.session_id not in found:
                found[row.session_id] = row
                waiting.append(row.session_id)
    rows = list(found.values())[:most]
    if all(row.session_id != id for row in rows):
        rows[-1] = found.get(id) or hf.info(id)  # for those that look at it now
    return rows, bool(waiting) or len(found) > most


class ForkOrigin(msgspec.Struct, frozen=True):
    """The origin of a session besides its parent: the last event they share, and the sessions merged into it."""

    at: int | None = None
    merged: str | None = None


def origin(hf: Holdfast, row: SessionMetadata) -> ForkOrigin:
    """Return where a fork or a merge came from, as far as that can be read."""
    merged = None
    if row.parent is None:
        return ForkOrigin()
    try:
        for event in hf.events(row.session_id, types=("forked", "merged"), reverse=True):
            if event.type == "forked":  # what is before it is its parent's
                at = event.data.get("seq")
                return ForkOrigin(at if isinstance(at, int) else None, merged)
            merged = event.data.get("session")
    except HoldfastError:
        return ForkOrigin()
    return ForkOrigin(None, merged)


def _first(hf: Holdfast, id: str) -> SessionMetadata:
    """Return the oldest of the line that is still there; hostile data may claim a circle."""
    row, met = hf.info(id), {id}
    while row.parent is not None and is_id(row.parent) and row.parent not in met:
        met.add(row.parent)
        try:
            row = hf.info(row.parent)
        except HoldfastError:
            break
    return row
