"""Messages of Strands, which have the form of Bedrock's Converse API, as events and back."""

from __future__ import annotations

from typing import Any

from holdfast.integrations._units import Form, Words, blocks_of, spoken
from holdfast.model import Event

__all__ = ["FORM", "as_message", "interrupted"]

_LOST = "Tool was interrupted."  # as Strands itself says it


def as_message(events: list[Event]) -> list[dict[str, Any]]:
    """What others recorded as messages; neighbours of one side are one message."""
    made: list[dict[str, Any]] = []
    for event in events:
        if event.type == "system":
            continue
        role = "user" if event.type in ("user", "tool_result") else "assistant"
        content = [_part(block) for block in blocks_of(event.type, event.data)]
        if made and made[-1]["role"] == role and event.type != "user":
            made[-1]["content"] += content
        else:
            made.append({"role": role, "content": content})
    return made


def interrupted(message: Any, following: Any) -> dict[str, Any] | None:
    """Results for the calls of a message that have none in the next; None if all have.

    ``partly`` says whether the next message has some of them: there the others belong.
    """
    calls = [part["toolUse"]["toolUseId"] for part in message["content"] if "toolUse" in part]
    parts = following["content"] if following else []
    answered = {part["toolResult"]["toolUseId"] for part in parts if "toolResult" in part}
    missing = [id for id in calls if id not in answered]
    if not missing:
        return None
    content = [
        {"toolResult": {"toolUseId": id, "status": "error", "content": [{"text": _LOST}]}}
        for id in missing
    ]
    return {"content": content, "partly": bool(answered & set(calls))}


def _tell(item: dict[str, Any]) -> Words:
    message = item.get("redact_message") or item["message"]
    blocks = [_block(part) for part in message["content"]]
    said = [block for block in blocks if block is not None]
    return spoken({"role": message["role"], "content": said}, "neutral") if said else []


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "toolUse" in part:
        use = part["toolUse"]
        return {
            "type": "tool_use",
            "id": use["toolUseId"],
            "name": use["name"],
            "input": use["input"],
        }
    if "toolResult" in part:
        result = part["toolResult"]
        content = [_result(one) for one in result.get("content", [])]
        failed = {"is_error": True} if result.get("status") == "error" else {}
        id = result["toolUseId"]
        return {"type": "tool_result", "tool_use_id": id, "content": content, **failed}
    thought = part.get("reasoningContent", {}).get("reasoningText")
    if thought and thought.get("text"):
        signature = {"signature": thought["signature"]} if thought.get("signature") else {}
        return {"type": "thinking", "thinking": thought["text"], **signature}
    return None


def _result(part: dict[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    return {"type": "text", "text": str(part.get("json", part))}


def _rebuild(words: Words) -> dict[str, Any]:
    if words[0][0] == "frame":
        return {}
    role = "user" if words[0][0] in ("user", "tool_result") else "assistant"
    content = [_part(block) for word in words for block in blocks_of(*word)]
    return {"message": {"role": role, "content": content}, "redact_message": None}


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"text": block["text"]}
    if kind == "tool_use":
        use = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
        return {"toolUse": use}
    if kind == "tool_result":
        given = block["content"]
        parts = [{"text": given}] if isinstance(given, str) else [_part(one) for one in given or ()]
        status = "error" if block.get("is_error") else "success"
        return {
            "toolResult": {"toolUseId": block["tool_use_id"], "status": status, "content": parts}
        }
    if kind == "thinking":
        text = {"text": block["thinking"]}
        text |= {"signature": block["signature"]} if block.get("signature") else {}
        return {"reasoningContent": {"reasoningText": text}}
    return {"text": f"[{kind}]"}


FORM = Form("strands/1", _tell, _rebuild)
