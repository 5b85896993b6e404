"""Messages of opencode's newer tables, in the form of the older ones."""

from __future__ import annotations

from typing import Any

from holdfast.formats.readers._shape import block_text, first_text, items, json_value, mapping, text

__all__ = ["older_form"]

Record = dict[str, Any]


def older_form(row: Record) -> tuple[Record, list[Record]]:
    """What is known about a message of ``session_message``, and its parts."""
    id, kind = text(row.get("id")), text(row.get("type"))
    data = mapping(json_value(row.get("data")))
    about: Record = {
        "id": id,
        "role": kind,
        "time": mapping(data.get("time")),
        "modelID": first_text(mapping(data.get("model")).get("id")),
        "tokens": data.get("tokens"),
        "cost": data.get("cost"),
        "$raw": row.get("data"),
        "$created": row.get("time_created"),
    }
    if kind == "user":
        files = [{"type": "file", "url": mapping(f).get("uri")} for f in items(data.get("files"))]
        return about, _named(id, [{"type": "text", "text": data.get("text")}, *files])
    if kind == "assistant":
        return about, _named(id, [_part(mapping(part)) for part in items(data.get("content"))])
    return about, []


def _named(id: str, parts: list[Record]) -> list[Record]:
    """The parts with ids: those in the source need not differ between messages."""
    return [part | {"id": f"{id}/{number}"} for number, part in enumerate(parts)]


def _part(part: Record) -> Record:
    if part.get("type") == "reasoning":
        return part | {"metadata": part.get("providerMetadata")}
    if part.get("type") != "tool":
        return part
    state, time = mapping(part.get("state")), mapping(part.get("time"))
    error = mapping(state.get("error")).get("message")
    shown = block_text(state.get("content")) or state.get("result")
    changed = {
        "input": json_value(state.get("input")),
        "output": shown,
        "error": first_text(error, shown),
        "time": {"start": time.get("ran"), "end": time.get("completed")},
    }
    return {
        "type": "tool",
        "tool": part.get("name"),
        "callID": part.get("id"),
        "state": state | changed,
    }
