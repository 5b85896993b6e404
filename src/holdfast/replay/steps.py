"""Calls paired with their results, and edits as differences: how every surface shows a tool. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.replay.content import as_json
from holdfast.replay.transcript import Entry

__all__ = ["PairedEntry", "arguments", "changed_lines", "edit_of", "paired"]

_PARAM_CHARS = 80
_HELD_MAX = 64  # entries that wait for the result of a call before them
_EDITS = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))
_EDIT_CHARS_MAX = 100_000  # longer texts take too long to compare


class PairedEntry(msgspec.Struct, frozen=True):
    """An entry, with its result if it is a call that got one soon."""

    entry: Entry
    result: Entry | None = None
    is_open: bool = False
    """True for a call that had no result when the next question of its run came, or when the events ended."""

    @property
    def took_ms(self) -> int:
        """The duration of the call, without the time for a decision; 0 if unknown."""
        if self.result is None:
            return 0
        began = self.entry.timestamp if self.result.since is None else self.result.since
        return max(self.result.timestamp - began, 0)

    @property
    def is_unfinished(self) -> bool:
        """True if the end of the step is missing: the result of a call, or the rest of an answer."""
        return self.is_open or self.entry.state == "open"

    @property
    def went_wrong(self) -> bool:
        """True if the step failed, was cut off, or reports such a failure."""
        entry = self.result or self.entry
        is_told = entry.kind == "note" and entry.name.startswith(("error", "interrupted", "the turn ended"))
        return entry.kind == "failure" or entry.state == "cut" or is_told


def paired(entries: Iterable[Entry]) -> Iterator[PairedEntry]:
    """Yield the entries in their order, each result with its call; one far from its call is by itself."""
    held: deque[list[Entry]] = deque()
    waiting: dict[tuple[str | None, str | None], list[Entry]] = {}

    def waits(step: list[Entry]) -> bool:
        return waiting.get((step[0].run, step[0].id)) is step

    def told(step: list[Entry]) -> PairedEntry:
        entry = step[0]
        if step[1:] or entry.kind != "call" or entry.id is None:
            return PairedEntry(entry, step[1] if step[1:] else None)
        was_left = any(after[0].kind == "user" and after[0].run == entry.run for after in held)
        return PairedEntry(entry, None, was_left or waits(step))

    for entry in entries:
        key = (entry.run, entry.id)
        if entry.kind in ("result", "failure") and key in waiting:
            waiting.pop(key).append(entry)
        else:
            # Do not wait too long for a result.
            if len(held) >= _HELD_MAX:
                waiting.clear()
            held.append([entry])
            if entry.kind == "call" and entry.id is not None:
                waiting[key] = held[-1]
        while held and not waits(held[0]):
            yield told(held.popleft())
    while held:
        yield told(held.popleft())


def edit_of(entry: Entry) -> tuple[str, list[str]] | None:
    """Return the parts of a call that replaces one text by another: its other arguments, and the diff lines.

    The lines begin with ``-``, ``+`` or a space; ``…`` stands for omitted ones. None for any other call.
    """
    found = changed_lines(entry.value) if entry.kind == "call" else None
    return None if found is None else (arguments(found[0]), found[1])


def changed_lines(args: Any) -> tuple[dict[str, Any], list[str]] | None:
    """Return the arguments of a call beside the change of a text, and the lines of the change; None for others."""
    value = args if isinstance(args, dict) else {}
    for names in _EDITS:
        old, new = (value.get(name) for name in names)
        if isinstance(old, str) and isinstance(new, str) and len(old) + len(new) <= _EDIT_CHARS_MAX:
            from difflib import unified_diff

            lines = [*unified_diff(old.splitlines(), new.splitlines(), n=2, lineterm="")][3:]
            rest = {name: item for name, item in value.items() if name not in names}
            return rest, ["…" if line.startswith("@@") else line for line in lines]
    return None


def arguments(value: Any) -> str:
    """Return the arguments of a call: ``path="a.txt" limit=5`` if that is short enough to read, else JSON."""
    if not isinstance(value, dict):
        return "" if value is None else as_json(value)
    pairs = [f"{name}={as_json(item)}" for name, item in value.items()]
    return ("\n" if any(len(pair) > _PARAM_CHARS for pair in pairs) else "  ").join(pairs)
