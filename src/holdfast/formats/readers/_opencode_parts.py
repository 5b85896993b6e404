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

__all__ = ["tell_part", "tell_result", "tell_usage"]

Record = dict[str, Any]

_USAGE = {"input": "input_tokens", "output": "output_tokens", "total": "total_tokens"}
_CACHE = {"read": "cache_read_tokens", "write": "cache_write_tokens"}


def tell_part(about: Record, part: Record, entry: Entry) -> None:
    """What one part of a message says."""
    kind = entry.kind = text(part.get("type")) or None
    is_user = about.get("role") == "user"
    if kind == "text":
        _tell_text(about, part, entry, is_user=is_user)
    elif kind == "reasoning":
        entry.thinking(text(part.get("text")), _signature(part))
    elif kind == "tool":
        entry.call(_call_id(part), part.get("tool"), mapping(part.get("state")).get("input"))
    elif kind == "file" and is_user:
        block = data_url_block(part.get("url"))
        entry.user([block] if block else [])


def _tell_text(about: Record, part: Record, entry: Entry, *, is_user: bool) -> None:
    words = part.get("text")
    if part.get("synthetic") is True or part.get("ignored") is True:
        entry.kind = "synthetic"
    elif is_user:
        entry.user(words)
    else:
        model = first_text(about.get("modelID"), mapping(about.get("model")).get("modelID"))
        entry.assistant(words, model)


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
