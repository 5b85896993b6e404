"""Messages of LlamaIndex as events, and back."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import ChatMessage

from holdfast.integrations._units import Form, Unit, Words, blocks_of, spoken

__all__ = ["FORM", "as_item", "message_of"]

_ROLES = {"chatbot": "assistant", "model": "assistant", "developer": "system"}


def as_item(message: ChatMessage) -> dict[str, Any]:
    """A message as plain data."""
    made: dict[str, Any] = message.model_dump(mode="json")
    return made


def message_of(unit: Unit) -> ChatMessage:
    """What a memory gets: its own messages as they came, what others said in its form."""
    if unit.own:
        item = unit.fresh
        item.pop("status", None)  # what a memory did with it is no part of it
        return ChatMessage.model_validate(item)
    content = unit.item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        # One message answers one call here: further results say whose they are in their text.
        return ChatMessage.model_validate(_result(results[0], results[1:]))
    parts = [_part(block) for block in blocks]
    return ChatMessage.model_validate({"role": unit.item["role"], "blocks": parts})


def _result(block: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [_text(block)]
    texts += [f"result of {other['tool_use_id']}: {_text(other)}" for other in others]
    blocks = [{"block_type": "text", "text": text} for text in texts]
    named = {"tool_call_id": block["tool_use_id"]}
    return {"role": "tool", "blocks": blocks, "additional_kwargs": named}


def _text(block: dict[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)
    return content if isinstance(content, str) else str(content)


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"block_type": "text", "text": block["text"]}
    if block["type"] == "thinking":
        return {"block_type": "thinking", "content": block["thinking"]}
    if block["type"] == "tool_use":
        named = {"tool_call_id": block["id"], "tool_name": block["name"]}
        return {"block_type": "tool_call", **named, "tool_kwargs": block["input"]}
    return {"block_type": "text", "text": f"[{block['type']}]"}


def _tell(item: dict[str, Any]) -> Words:
    role = _ROLES.get(item["role"], item["role"])
    blocks = [_block(part) for part in item["blocks"]]
    said = [block for block in blocks if block is not None]
    answers = item["additional_kwargs"].get("tool_call_id")
    if role == "tool" and isinstance(answers, str):
        texts = [block["text"] for block in said if block["type"] == "text"]
        return [("tool_result", {"toolCallId": answers, "result": "\n".join(texts)})]
    if role not in ("user", "assistant", "system") or not said:
        return []
    return spoken({"role": role, "content": said}, "neutral")


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    kind = part["block_type"]
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    if kind == "thinking" and part.get("content"):
        return {"type": "thinking", "thinking": part["content"]}
    arguments = part.get("tool_kwargs")
    if kind == "tool_call" and part.get("tool_call_id") and isinstance(arguments, dict):
        named = {"id": part["tool_call_id"], "name": part["tool_name"]}
        return {"type": "tool_use", **named, "input": arguments}
    return None


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    if type == "tool_result":
        block = {"tool_use_id": data["toolCallId"], "content": data["result"]}
        return _result(block, [])
    role = type if type in ("user", "system") else "assistant"
    parts = [_part(block) for word in words for block in blocks_of(*word)]
    return {"role": role, "additional_kwargs": {}, "blocks": parts}


FORM = Form("llama-index/1", _tell, _rebuild)
