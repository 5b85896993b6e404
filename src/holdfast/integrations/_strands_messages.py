"""Messages of Strands, which have the form of Bedrock's Converse API, as events and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid5

from holdfast.integrations._units import Form, Words, blocks_of, spoken
from holdfast.model import Event

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PUT_IN = UUID("5f0c6a0e-3b1d-4f0a-9d1c-6f5a52f3f4c7")
_TIMES = ("created_at", "updated_at")
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


def repaired(items: list[dict[str, Any]], conversation: str) -> list[dict[str, Any]]:
    """Messages in their order, every call directly followed by its result, as models demand it.

    A call in the last message is left alone: it may wait for a person, and Strands answers it when
    something else is said. A message that is put in has the same tracking id whenever the
    ``conversation`` is read. Items without a number get one; those of the others stay.
    """
    made: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        calls = _ids(made[-1], "toolUse") if made else {}
        answered = _ids(item, "toolResult")
        lost = [_lost_result(id) for id in calls if id not in answered]
        told = item
        if lost and calls.keys() & answered.keys():
            told = _with_content(item, [*lost, *_said(item)["content"]])
        elif lost:
            tracking_id = uuid5(_PUT_IN, json.dumps([conversation, place, *calls]))
            message = {"role": "user", "content": lost, "tracking_id": str(tracking_id)}
            times = {name: made[-1][name] for name in _TIMES if name in made[-1]}
            made.append({"message": message, "message_id": -place, **times})
        made.append(told)
    return _numbered(made)


def _numbered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give every item a number: those that Strands did not number get the ones in between.

    What was put in goes without, and keeps its number below zero, where there is no room.
    """
    made: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    next_free = 0
    for item in [*items, None]:
        number = math.inf if item is None else item.get("message_id", -1)
        if item is not None and number < 0:
            waiting.append(item)
            continue
        room = len(waiting) <= number - next_free
        for one in waiting:
            if room or "message_id" not in one:
                made.append(one | {"message_id": next_free})
                next_free += 1
            else:
                made.append(one)
        waiting = []
        if item is not None:
            made.append(item)
            next_free = max(next_free, int(number) + 1)
    return made


def _said(item: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", item.get("redact_message") or item["message"])


def _with_content(item: dict[str, Any], content: list[Any]) -> dict[str, Any]:
    name = "redact_message" if item.get("redact_message") else "message"
    return item | {name: item[name] | {"content": content}}


def _ids(item: dict[str, Any], kind: str) -> dict[str, None]:
    """The ids of the calls or of the results in a message, in their order."""
    parts = _said(item)["content"]
    return {part[kind]["toolUseId"]: None for part in parts if kind in part}


def _lost_result(id: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "status": "error", "content": [{"text": _LOST}]}}


def micros_of(text: Any) -> int | None:
    """A time as Strands writes it, in microseconds; None for anything else."""
    try:
        micros = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except (TypeError, ValueError):
        return None
    return micros if time_of(micros) == text else None


def time_of(micros: int) -> str:
    """A time in microseconds, in the text that Strands writes."""
    return (_EPOCH + micros * _MICROSECOND).isoformat()


def _tell(item: dict[str, Any]) -> Words:
    message = _said(item)
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
