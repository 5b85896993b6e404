"""Messages of the Microsoft Agent Framework as events, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import Message

from holdfast.integrations._units import LOST, Form, Unit, Words, blocks_of, spoken

__all__ = ["FORM", "as_item", "message_of", "with_results"]

_PLAIN: dict[str, Any] = {"additional_properties": {}}


def as_item(message: Message) -> dict[str, Any]:
    """A message as plain data; one of a class of the caller's own as a message like any other."""
    made: dict[str, Any] = json.loads(message.to_json())
    return made | {"type": "message"}


def message_of(unit: Unit) -> Message:
    """What an agent gets: its own messages as they came, what others said in its form."""
    if unit.own:
        return Message.from_dict(unit.fresh)
    role, content = unit.item["role"], unit.item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if blocks and all(block["type"] == "tool_result" for block in blocks):
        role = "tool"
    return Message.from_dict(_message(role, [_content(block) for block in blocks]))


def with_results(history: Sequence[Message], given: Sequence[Message]) -> list[Message]:
    """A history with a result for each call that has none, also in what is given now.

    A model refuses a call without one. Those that wait for an approval are the framework's.
    """
    contents = [content for message in (*history, *given) for content in message.contents]
    settled = {one.call_id for one in contents if one.type == "function_result"}
    asked = (one for one in contents if one.type.startswith("function_approval_"))
    settled |= {one.function_call.call_id for one in asked if one.function_call is not None}
    made: list[Message] = []
    for message in history:
        made.append(message)
        for one in message.contents:
            if one.type == "function_call" and one.call_id not in settled:
                lost = {"tool_use_id": one.call_id, "content": LOST, "is_error": True}
                made.append(Message.from_dict(_message("tool", [_result(lost)])))
    return made


def _tell(item: dict[str, Any]) -> Words:
    role = item.get("role")
    blocks = [_block(content) for content in item.get("contents", ())]
    said = [block for block in blocks if block is not None]
    if role not in ("user", "assistant", "system", "tool") or not said:
        return []
    return spoken({"role": "user" if role == "tool" else role, "content": said}, "neutral")


def _block(content: dict[str, Any]) -> dict[str, Any] | None:
    kind = content.get("type")
    if kind == "text" and content.get("text"):
        return {"type": "text", "text": content["text"]}
    if kind == "text_reasoning" and content.get("text"):
        return {"type": "thinking", "thinking": content["text"]}
    if kind == "function_call" and content.get("call_id"):
        named = {"id": content["call_id"], "name": content.get("name") or ""}
        return {"type": "tool_use", **named, "input": _arguments(content.get("arguments"))}
    if kind == "function_result" and content.get("call_id"):
        failed = {"is_error": True} if content.get("exception") else {}
        result = {"tool_use_id": content["call_id"], "content": content.get("result")}
        return {"type": "tool_result", **result, **failed}
    return None


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            given = {"arguments": given}
    return given if isinstance(given, dict) else {"arguments": given}


def _rebuild(words: Words) -> dict[str, Any]:
    type = words[0][0]
    if type == "frame":
        return {}
    roles = {"user": "user", "system": "system", "tool_result": "tool"}
    contents = [_content(block) for word in words for block in blocks_of(*word)]
    return _message(roles.get(type, "assistant"), contents)


def _message(role: str, contents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "contents": contents, **_PLAIN}


def _content(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": block["text"], **_PLAIN}
    if kind == "thinking":
        return {"type": "text_reasoning", "text": block["thinking"], **_PLAIN}
    if kind == "tool_use":
        named = {"call_id": block["id"], "name": block["name"], "arguments": block["input"]}
        return {"type": "function_call", **named, "hosted": False, **_PLAIN}
    if kind == "tool_result":
        return _result(block)
    return {"type": "text", "text": f"[{kind}]", **_PLAIN}


def _result(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("content")
    if isinstance(given, list):
        given = "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in given)
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    items = [{"type": "text", "text": text, **_PLAIN}]
    made = {"type": "function_result", "call_id": block["tool_use_id"], "result": text}
    failed = {"exception": "error"} if block.get("is_error") else {}
    return {**made, "items": items, **failed, **_PLAIN}


FORM = Form("msaf/1", _tell, _rebuild, older=("agent-framework/1",))
