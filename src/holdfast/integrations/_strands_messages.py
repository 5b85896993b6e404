"""Messages of Strands, which have the form of Bedrock's Converse API, as events and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, cast

from strands.types.session import SessionMessage

from holdfast.integrations._units import Form, Words, blocks_of, spoken
from holdfast.model import Event

__all__ = ["FORM", "as_message", "micros_of", "repaired", "time_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
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


def repaired(messages: list[SessionMessage]) -> list[SessionMessage]:
    """Every call directly followed by its result, as the model demands it."""
    made: list[SessionMessage] = []
    for message, following in zip_longest(messages, messages[1:]):
        made.append(message)
        answer = _interrupted(message.to_message(), following and following.to_message())
        if answer is None:
            continue
        if following is not None and answer["partly"]:
            said = cast("Any", following.to_message())
            following.message = said | {"content": answer["content"] + said["content"]}
        else:
            number = message.message_id + 1
            content = cast("Any", {"role": "user", "content": answer["content"]})
            made.append(replace(message, message=content, message_id=number, redact_message=None))
    return made


def _interrupted(message: Any, following: Any) -> dict[str, Any] | None:
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


def micros_of(text: Any) -> int | None:
    """A time as Strands writes it, in microseconds; None for anything else."""
    try:
        micros = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except (TypeError, ValueError):
        return None
    return micros if time_of(micros) == text else None


def time_of(micros: int) -> str:
    """The same time as the text that it was."""
    return (_EPOCH + micros * _MICROSECOND).isoformat()


def _tell(item: dict[str, Any]) -> Words:
    message = item.get("redact_message") or item["message"]
    blocks = [_block(part) for part in message["content"]]
    said = [block for block in blocks if block is not None]
    words = spoken({"role": message["role"], "content": said}, "neutral") if said else []
    made, changed = micros_of(item.get("created_at")), micros_of(item.get("updated_at"))
    if words and made is not None and changed is not None:
        words[0][1]["at"] = [item["message_id"], made, changed - made]
    return words


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
    made: dict[str, Any] = {"message": {"role": role, "content": content}, "redact_message": None}
    if "at" in words[0][1]:
        number, created, later = words[0][1]["at"]
        made |= {"message_id": number, "created_at": time_of(created)}
        made |= {"updated_at": time_of(created + later)}
    return made


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


FORM = Form("strands/2", _tell, _rebuild, older=("strands/1",))
