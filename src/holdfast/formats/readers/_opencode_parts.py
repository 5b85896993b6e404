"""The parts of opencode's messages."""

from __future__ import annotations

from typing import Any

from holdfast.formats._foreign import read_time
from holdfast.formats.readers._book import Entry
from holdfast.formats.readers._shape import (
    data_url_block,
    first_text,
    items,
    mapping,
    rename_figures,
    text,
)

__all__ = ["said_by_user", "tell_part", "tell_result", "tell_usage"]

Record = dict[str, Any]

_USAGE = {"input": "input_tokens", "output": "output_tokens", "total": "total_tokens"}
_CACHE = {"read": "cache_read_tokens", "write": "cache_write_tokens"}


def tell_part(about: Record, part: Record, entry: Entry) -> None:
    """What one part of a message says."""
    kind = entry.kind = text(part.get("type")) or None
    if kind == "text":
        _tell_text(about, part, entry)
    elif kind == "reasoning":
        entry.thinking(text(part.get("text")), _signature(part))
    elif kind == "tool":
        entry.call(_call_id(part), part.get("tool"), mapping(part.get("state")).get("input"))


def said_by_user(part: Record) -> Record | None:
    """What a part of a user's message says: words or a picture; None if it is not the user's."""
    if part.get("type") == "file":
        return data_url_block(part.get("url"))
    is_said = part.get("type") == "text" and not _is_added(part)
    words = text(part.get("text"))
    return {"type": "text", "text": words} if is_said and words.strip() else None


def _is_added(part: Record) -> bool:
    """Whether the tool put it there itself."""
    return part.get("synthetic") is True or part.get("ignored") is True


def _tell_text(about: Record, part: Record, entry: Entry) -> None:
    if _is_added(part):
        entry.kind = "synthetic"
        return
    model = first_text(about.get("modelID"), mapping(about.get("model")).get("modelID"))
    entry.assistant(part.get("text"), model)


def _call_id(part: Record) -> str:
    return first_text(part.get("callID"), part.get("id")) or "unknown"


def tell_result(part: Record, entry: Entry) -> None:
    """What came of a call, once it has ended."""
    state = mapping(part.get("state"))
    id = _call_id(part)
    stamp = read_time(mapping(state.get("time")).get("end"))
    if state.get("status") == "completed":
        pictures = [data_url_block(mapping(a).get("url")) for a in items(state.get("attachments"))]
        shown = [block for block in pictures if block]
        output = state.get("output")
        words = {"type": "text", "text": output}
        result = [words, *shown] if shown and isinstance(output, str) else output
        entry.result(id, result, stamp=stamp)
    elif state.get("status") == "error":
        entry.result(id, state.get("error"), is_error=True, stamp=stamp)


def _signature(part: Record) -> Any:
    """The signature of a thought, under whichever provider's name."""
    owners = mapping(part.get("metadata")).values()
    return first_text(*(mapping(owner).get("signature") for owner in owners))


def tell_usage(about: Record, entry: Entry) -> None:
    """What a message cost, once it is whole."""
    tokens = mapping(about.get("tokens"))
    figures = rename_figures(tokens, _USAGE) | rename_figures(tokens.get("cache"), _CACHE)
    figures |= rename_figures(about, {"cost": "cost"})
    if about.get("role") == "assistant" and figures:
        entry.usage(figures, about.get("modelID"), f"{text(about.get('id'))}/usage")
