"""What has changed in a source since it was imported, under the names that it had then."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.formats import Draft
from holdfast.model import is_reference

if TYPE_CHECKING:
    from holdfast.model import Event
    from holdfast.replay import State

__all__ = ["returns", "revisions"]

Events = Callable[..., "Iterator[Event]"]

_BODIES = {
    "user": "content",
    "assistant": "content",
    "thinking": "content",
    "tool_call": "params",
    "tool_result": "result",
}
_VALUES = {
    "title": ("title", ""),
    "memory_set": ("memory", "key"),
    "variable_set": ("variable", "name"),
}
"""What sets a value, and which of its members says what it is called."""
_DIGEST_CHARS = 16


def revisions(drafts: list[Draft], known: State, events: Events, id: str) -> list[Draft]:
    """The last thing that was said here, said as the source has it now; nothing if it is the same.

    Its old form is taken back. What stands further back was whole when it was imported.
    """
    here = [draft for draft in drafts if draft.type in _BODIES and draft.key in known.keys]
    last = max(here, key=lambda draft: known.keys[draft.key or ""], default=None)
    return [
        *([] if last is None else _revised(last, known, events, id)),
        *_outgrown(drafts, known, events, id),
    ]


def _revised(draft: Draft, known: State, events: Events, id: str) -> list[Draft]:
    """A draft whose event here says something else."""
    key = f"{draft.key}~{_digest(draft)}"
    forms = [seq for name, seq in known.keys.items() if _is_form(name, draft.key or "")]
    seq = max(forms)
    recorded = next(events(id, seq, seq + 1), None)
    if key in known.keys or recorded is None or not _differs(draft, recorded):
        return []
    return [
        _taken_back(seq, draft, key),
        Draft(draft.type, draft.data, draft.timestamp, draft.run, key),
    ]


def _is_form(name: str, key: str) -> bool:
    """Whether that is the key of a draft, as it came first or as it was said again."""
    return name == key or (name.startswith(f"{key}~") and not name.endswith("~back"))


def _outgrown(drafts: list[Draft], known: State, events: Events, id: str) -> list[Draft]:
    """The taking back of words that a new draft begins with, where the source names no message."""
    new = next((d for d in drafts if d.type in _BODIES and d.key not in known.keys), None)
    if new is None or not isinstance(new.data.get("content"), str):
        return []
    recorded = next(events(id, types=list(_BODIES), reverse=True, limit=1), None)
    if recorded is None or recorded.type != new.type:
        return []
    said = recorded.data.get("content")
    key = next((key for key, seq in known.keys.items() if seq == recorded.seq), None)
    gone = key is not None and key.startswith("i.") and key not in {d.key for d in drafts}
    if gone and isinstance(said, str) and said and new.data["content"].startswith(said):
        return [_taken_back(recorded.seq, new, f"{new.key}~")]
    return []


def _taken_back(seq: int, draft: Draft, key: str) -> Draft:
    return Draft("retracted", {"seqs": [seq]}, draft.timestamp, key=f"{key}~back")


def _digest(draft: Draft) -> str:
    data = msgspec.json.encode(draft.data.get(_BODIES[draft.type]), order="sorted")
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]


def _differs(draft: Draft, recorded: Event) -> bool:
    """Whether the source has another text or other arguments now."""
    if recorded.type != draft.type:
        return False
    body = _BODIES[draft.type]
    before: Any = recorded.data.get(body)
    return not is_reference(before) and before != draft.data.get(body)


def returns(drafts: list[Draft], known: State, events: Events, id: str) -> list[Draft]:
    """What the source has set back to an earlier value: such a draft has a key that is known.

    What a person changed or removed here since then stays as it is.
    """
    latest = {_name(draft): draft for draft in drafts if draft.type in _VALUES}
    wanted = {
        name: draft
        for name, draft in latest.items()
        if draft.key in known.keys and not _holds(draft, known)
    }
    if not wanted:
        return []
    found = []
    for event in events(id, types=list(_VALUES), reverse=True):
        draft = wanted.pop(_name(event), None)
        if draft is not None and (event.key or "").startswith("i."):
            again = f"{draft.key}~{event.seq}"
            found.append(Draft(draft.type, draft.data, draft.timestamp, draft.run, again))
    return found


def _name(one: Draft | Event) -> tuple[str, str]:
    """What a draft or an event sets."""
    return _VALUES[one.type][0], str(one.data.get(_VALUES[one.type][1], ""))


def _holds(draft: Draft, known: State) -> bool:
    """Whether what a draft sets is so, or is not there any more."""
    if draft.type == "title":
        return known.title in (None, draft.data["title"])
    if draft.type == "memory_set":
        entry = known.memory.get(draft.data["key"])
        return entry is None or is_reference(entry.value) or entry.value == draft.data.get("value")
    encoded = known.encoded.get(draft.data["name"])
    return encoded is None or msgspec.json.decode(encoded) == draft.data["value"]
