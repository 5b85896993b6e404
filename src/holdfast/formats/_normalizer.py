"""Making what comes from elsewhere fit to be recorded: plain values, known types, stable keys.

An append refuses what it cannot record faithfully. Here such a value is replaced by the nearest
that can be, while the source line, which is kept beside it, still says how it was.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.formats._foreign import Foreign, ForeignDraft

# What a file may bring. Permissions, plugins, tools, settings and instructions are not among them:
# they would act on this machine in the name of whoever made the file.
ALLOWED_TYPES = frozenset(
    """
    user assistant system thinking tool_call tool_result retracted compaction
    turn_start turn_end agent_start agent_iteration agent_complete agent_error
    delegation delegation_complete
    variable_set variable_delete memory_set memory_delete todo_update task usage metadata
    title tag untag link frame
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
_RESERVED_METADATA = frozenset({"pinned", "legal_hold"})
_DEPTH_MAX = 50
_DIGITS_MAX = 64
_KEY_CHARS_MAX = 120
_STATE_BYTES_MAX = 200_000
_WHOLE_STATE = frozenset({"title", "tag", "untag", "link", "metadata", "task", "todo_update"})
_NUL = "\u2400"


def fit_drafts(foreign: Foreign) -> Iterator[ForeignDraft]:
    """The drafts of a session, each with a key and a time, and with what may be recorded.

    The key depends only on the content and on how often it came before, so that a grown source
    gives the same keys for what it held before.
    """
    seen: dict[str, int] = {}
    ends = _Ends()
    stamp = foreign.created_at
    for draft in foreign.drafts:
        fitted = _fit(draft, foreign.tool)
        stamp = draft.timestamp or stamp
        key = _key(fitted)
        count = seen[key] = seen.get(key, -1) + 1
        fitted.key = f"{key}.{count}" if count else key
        fitted.timestamp = stamp
        ends.take(fitted)
        yield fitted
    yield from ends.drafts(stamp)


def fit_value(value: Any, depth: int = _DEPTH_MAX) -> Any:
    """The nearest value that can be recorded."""
    if isinstance(value, str):
        return _fit_text(value)
    if isinstance(value, dict):
        if depth <= 0:
            return _as_text(value)
        return {_fit_text(str(key)): fit_value(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fit_value(item, depth - 1) for item in value] if depth > 0 else _as_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= 10**_DIGITS_MAX:
        return hex(value)
    return value if isinstance(value, (int, float, bool, type(None))) else _fit_text(str(value))


def _fit_text(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", _NUL)
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _as_text(value: Any) -> str:
    try:
        return _fit_text(json.dumps(value, ensure_ascii=True))
    except (RecursionError, ValueError):
        return "(nested too deep)"


def _fit(draft: ForeignDraft, tool: str) -> ForeignDraft:
    data = fit_value(draft.data)
    if draft.type == "metadata":
        data = {name: value for name, value in data.items() if name not in _RESERVED_METADATA}
    if draft.type == "retracted" and isinstance(data.get("keys"), list):
        data["keys"] = [_key(ForeignDraft("", {}, key=str(key))) for key in data["keys"]]
    run = None if draft.run is None else _fit_text(draft.run)[:_KEY_CHARS_MAX]
    kept = ForeignDraft(draft.type, data, run=run, key=draft.key)
    if draft.type not in ALLOWED_TYPES or _is_too_large(draft.type, data):
        told = {"direction": "imported", "tool": tool, "type": _fit_text(draft.type[:80])}
        kept = ForeignDraft("frame", {**told, "frame": data}, run=run, key=draft.key)
    if draft.raw is not None and kept.type != "metadata":  # a free map, every member of it counts
        kept.data["raw"] = _fit_raw(draft.raw)
    return kept


def _is_too_large(type: str, data: dict[str, Any]) -> bool:
    return type in _WHOLE_STATE and len(msgspec.json.encode(data)) > _STATE_BYTES_MAX


def _fit_raw(raw: Any) -> Any:
    """The source as it came; bytes that are no text stay whole as base64."""
    if not isinstance(raw, bytes):
        return fit_value(raw)
    try:
        return _fit_text(raw.decode())
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(raw).decode()}


def _key(draft: ForeignDraft) -> str:
    if draft.key is not None:
        key = _fit_text(draft.key)
        return f"i.{key}" if len(key) <= _KEY_CHARS_MAX else f"i.{_digest(key.encode())}"
    return f"i.{_digest(msgspec.json.encode([draft.type, draft.data, draft.run]))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


class _Ends:
    """What a session leaves open: nobody is going to go on with it here."""

    def __init__(self) -> None:
        self._calls: dict[str, None] = {}
        self._turns: dict[str, str | None] = {}

    def take(self, draft: ForeignDraft) -> None:
        """Look at the next draft."""
        if draft.type == "tool_call":
            self._calls[str(draft.data.get("id"))] = None
        elif draft.type == "tool_result":
            self._calls.pop(str(draft.data.get("toolCallId")), None)
        elif draft.type == "turn_start":
            self._turns[draft.run or ""] = draft.run
        elif draft.type == "turn_end":
            self._turns.pop(draft.run or "", None)

    def drafts(self, stamp: int | None) -> Iterator[ForeignDraft]:
        """The ends of turns that are missing."""
        if self._calls:
            self._turns.setdefault("", None)
        for name, run in self._turns.items():
            calls = list(self._calls) if run is None else []
            key = f"i.end.{_digest(msgspec.json.encode([name, calls]))}"
            yield ForeignDraft("turn_end", {"reason": "imported"}, stamp, run, key)
