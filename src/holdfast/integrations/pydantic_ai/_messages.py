"""Messages of Pydantic AI as events, and back."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from holdfast.integrations._units import Form, Unit, Words, answered, blocks_of, spoken, voices
from holdfast.replay import to_dialect

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


class RecordedMessage(NamedTuple):
    """A message as it is on record: the unit of it, or (None) the events of others that say it."""

    item: dict[str, Any]
    seqs: tuple[int, ...]
    unit: Unit | None


def told_by(units: list[Unit]) -> list[RecordedMessage]:
    """What an agent gets: its own messages as they came, what others said in its form.

    A call that others began, and that has no result, is given one that says so.
    """
    told: list[RecordedMessage] = []
    for own, some in groupby(answered(voices(units)), key=lambda unit: unit.own):
        stretch = list(some)
        if own:
            told += [RecordedMessage(unit.fresh, unit.seqs, unit) for unit in stretch]
            continue
        said = [unit.item for unit in stretch]
        seqs = tuple(seq for unit in stretch for seq in unit.seqs)
        told += [RecordedMessage(item, seqs, None) for item in to_dialect(said, _DIALECT)]
    return told


def changes(
    told: list[RecordedMessage], items: list[dict[str, Any]], misspoken: Collection[int] = ()
) -> tuple[list[RecordedMessage], Words, list[dict[str, Any]]]:
    """What is to be recorded so that these items are on record: nothing that is told already.

    Returns what stays, the words by which it is completed and the rest is taken back, and the items
    that are new. An item is told already if what is on record says the same, be it as one message
    or as several; what its unit lacks beside the words is added to it. ``misspoken`` are units
    whose words say another thing than they hold.
    """
    stay: list[RecordedMessage] = []
    words: Words = []
    at = 0
    for item in items:
        same = _that_say(told[at:], item, misspoken)
        if not same:
            break
        unit = same[0].unit if len(same) == 1 else None
        if unit is not None and same[0].item != item:
            words += FORM.amend(unit, item)
            unit = unit._replace(item=item)
        seqs = tuple(dict.fromkeys(seq for one in same for seq in one.seqs))
        stay.append(RecordedMessage(item, seqs, unit))
        at += len(same)
    while stay and at < len(told) and stay[-1].unit is None and stay[-1].seqs == told[at].seqs:
        stay.pop()  # others said it in one stretch, which stays or goes as one
        at -= 1
    known = {seq for one in stay for seq in one.seqs}
    gone = dict.fromkeys(seq for one in told[at:] for seq in one.seqs if seq not in known)
    if gone:
        words.append(("retracted", {"seqs": list(gone)}))
    return stay, words, items[len(stay) :]


def _that_say(
    told: list[RecordedMessage], item: dict[str, Any], misspoken: Collection[int]
) -> list[RecordedMessage]:
    """The first of what is on record, as far as it says what an item says; empty if it does not."""
    words = _tell(item)
    said: Words = []
    for number, one in enumerate(told, 1):
        if one.seqs[0] in misspoken:
            return []
        said += _tell(one.item)
        if said == words:
            return told[:number]
        if len(said) >= len(words):
            return []
    return []


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
