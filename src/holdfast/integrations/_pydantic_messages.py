"""Messages of Pydantic AI as events, and back."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from holdfast.integrations._units import Form, Unit, Words, blocks_of, neutral_of, spoken
from holdfast.replay import to_dialect

__all__ = ["FORM", "as_items", "as_messages", "messages_of"]

_DIALECT = "pydantic-ai"
_PLAIN_PART = {"id": None, "provider_name": None, "provider_details": None}
_PLAIN_RESPONSE = {
    "provider_name": None,
    "provider_url": None,
    "provider_details": None,
    "provider_response_id": None,
    "finish_reason": None,
    "metadata": None,
    "workspace_ref": None,
    "history_digest": None,
    "failed_attempts": None,
    "state": "complete",
}


def as_items(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    """Messages as plain data."""
    items: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return items


def as_messages(items: list[dict[str, Any]]) -> list[ModelMessage]:
    """Plain data as messages."""
    return ModelMessagesTypeAdapter.validate_python(items)


def messages_of(units: list[Unit]) -> list[ModelMessage]:
    """What an agent gets: its own messages as they came, what others said in its form."""
    items: list[dict[str, Any]] = []
    foreign: list[dict[str, Any]] = []
    for unit in units:
        if unit.own:
            items += [*to_dialect(foreign, _DIALECT), unit.fresh]
            foreign = []
        else:
            foreign += neutral_of(unit.item)
    return as_messages([*items, *to_dialect(foreign, _DIALECT)])


def _tell(item: dict[str, Any]) -> Words:
    words = spoken(item, _DIALECT)
    usage = item.get("usage") or {}
    spent = {name: usage[name] for name in ("input_tokens", "output_tokens") if usage.get(name)}
    about = {"usage": spent, "model": item.get("model_name")}
    for type, data in words:
        if type == "assistant":
            data.update({name: value for name, value in about.items() if value})
            break
    return words


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    if type in ("user", "system", "tool_result"):
        parts = [_request_part(*word) for word in words]
        return {"kind": "request", "parts": parts, "metadata": None, "state": "complete"}
    said = next((data for type, data in words if type == "assistant"), data)
    parts = [_response_part(block) for word in words for block in blocks_of(*word)]
    made = {"kind": "response", "parts": parts, **_PLAIN_RESPONSE}
    return made | ({"model_name": said["model"]} if "model" in said else {})


def _request_part(type: str, data: dict[str, Any]) -> dict[str, Any]:
    if type == "user":
        return {"part_kind": "user-prompt", "content": data["content"]}
    if type == "system":
        plain = {"dynamic_ref": None, "scope": "conversation", "metadata": None}
        return {"part_kind": "system-prompt", "content": data["content"], **plain}
    names = {"tool_call_id": data["toolCallId"], "content": data["result"]}
    plain = {"tool_kind": None, "metadata": None, "outcome": "success", "retry": None}
    return {"part_kind": "tool-return", **names, **plain}


def _response_part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"part_kind": "text", "content": block["text"], "citations": None, **_PLAIN_PART}
    if kind == "thinking":
        signature = block.get("signature")
        thought = {"content": block["thinking"], "signature": signature}
        return {"part_kind": "thinking", **thought, **_PLAIN_PART}
    if kind == "tool_use":
        names = {"tool_name": block["name"], "args": block["input"], "tool_call_id": block["id"]}
        return {"part_kind": "tool-call", **names, "tool_kind": None, **_PLAIN_PART}
    return block


FORM = Form("pydantic-ai/1", _tell, _rebuild)
