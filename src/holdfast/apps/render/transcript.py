"""Entries of a transcript in words: who says it, what it says, and how much of it at first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import Event, SessionMetadata, is_id
from holdfast.replay import Entry, as_json
from holdfast.session import resolve_blobs, unreadable_from

_FOLD_LINES = 5
_FOLD_CHARS = 500
_PARAM_CHARS = 80
_HELD_MAX = 64  # entries that wait for the result of a call before them
_EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))
_EDIT_CHARS_MAX = 100_000  # what is longer takes too long to compare


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
    return _arguments(entry.value) if entry.kind == "call" else entry.text


class Step(NamedTuple):
    """An entry; the result of it beside it, if it is a call that got one soon."""

    entry: Entry
    result: Entry | None = None

    @property
    def took_ms(self) -> int:
        """How long the call took; 0 if that is not known."""
        return max(self.result.timestamp - self.entry.timestamp, 0) if self.result is not None else 0

    @property
    def went_wrong(self) -> bool:
        """Whether it failed, was cut off, or tells of something that did."""
        entry = self.result or self.entry
        is_told = entry.kind == "note" and entry.name.startswith(("error", "interrupted", "the turn ended"))
        return entry.kind == "failure" or entry.state == "cut" or is_told


def paired(entries: Iterable[Entry]) -> Iterator[Step]:
    """Yield the entries in their order, each result with its call; one whose call is far away stands by itself."""
    held: deque[list[Entry]] = deque()
    waiting: dict[tuple[str | None, str | None], list[Entry]] = {}

    def is_open(step: list[Entry]) -> bool:
        return waiting.get((step[0].run, step[0].id)) is step

    for entry in entries:
        key = (entry.run, entry.id)
        if entry.kind in ("result", "failure") and key in waiting:
            waiting.pop(key).append(entry)
        else:
            # The next question does not wait, nor does what stands behind much else.
            if entry.kind == "user" or len(held) >= _HELD_MAX:
                waiting.clear()
            held.append([entry])
            if entry.kind == "call" and entry.id is not None:
                waiting[key] = held[-1]
        while held and not is_open(held[0]):
            yield Step(*held.popleft())
    yield from (Step(*step) for step in held)


def edit_of(entry: Entry) -> tuple[str, list[str]] | None:
    """Return a call that puts one text in the place of another: its other arguments, and the lines that differ.

    The lines begin with ``-``, ``+`` or a space; ``…`` stands for those that are left out. None for any other call.
    """
    found = changed_lines(entry.value) if entry.kind == "call" else None
    return None if found is None else (_arguments(found[0]), found[1])


def changed_lines(args: Any) -> tuple[dict[str, Any], list[str]] | None:
    """Return what a call's arguments say beside a change of a text, and the lines of the change; None for others."""
    value = args if isinstance(args, dict) else {}
    for names in _EDITS:
        old, new = (value.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str) and len(old) + len(new) <= _EDIT_CHARS_MAX:
            from difflib import unified_diff

            lines = [*unified_diff(old.splitlines(), new.splitlines(), n=2, lineterm="")][3:]
            rest = {name: item for name, item in value.items() if name not in names}
            return rest, ["…" if line.startswith("@@") else line for line in lines]
    return None


def is_long_winded(entry: Entry) -> bool:
    """Whether an entry is of a kind that is shown shortened at first."""
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
        rows[-1] = found.get(id) or hf.info(id)  # whoever looks at it, sees it
    return rows, bool(waiting) or len(found) > most


class ForkOrigin(NamedTuple):
    """Where a session came from beside its parent: the last event they share, and what else was merged into it."""

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
    """The oldest of the line that is still there; hostile data may claim a circle."""
    row, met = hf.info(id), {id}
    while row.parent is not None and is_id(row.parent) and row.parent not in met:
        met.add(row.parent)
        try:
            row = hf.info(row.parent)
        except HoldfastError:
            break
    return row


def _arguments(value: Any) -> str:
    """``path="a.txt" limit=5`` where that is short enough to read, JSON otherwise."""
    if not isinstance(value, dict):
        return "" if value is None else as_json(value)
    pairs = [f"{name}={as_json(item)}" for name, item in value.items()]
    return ("\n" if any(len(pair) > _PARAM_CHARS for pair in pairs) else "  ").join(pairs)
