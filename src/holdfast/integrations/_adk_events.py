"""Events of the Agent Development Kit as ours, and back."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import State

from holdfast.integrations._units import Form, Unit, Words, answered, blocks_of, spoken, voices
from holdfast.replay import to_dialect

__all__ = ["FORM", "VARIABLE", "by_owner", "events_of"]

VARIABLE = "variable_set"


def by_owner(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A change of state by whom it belongs to; what is only for now belongs to nobody."""
    parts: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for name, value in delta.items():
        if name.startswith(State.APP_PREFIX):
            parts["app"][name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            parts["user"][name.removeprefix(State.USER_PREFIX)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            parts["session"][name] = value
    return parts


def events_of(units: list[Unit], author: str) -> list[Event]:
    """What the runner gets: its own events as they came, what others said in its form."""
    made: list[Event] = []
    seq = -1
    for unit in answered(voices(units)):
        if unit.own:
            made.append(Event.model_validate(unit.fresh))
            continue
        # A result that is put in for a call that has none stands for no event: it is named by the
        # call's, and has its time.
        seq, name = (unit.seqs[0], "holdfast") if unit.seqs else (seq, "holdfast-lost")
        at = unit.at / 1000 if unit.seqs else made[-1].timestamp
        made += _told_by_others(unit.item, author, f"{name}-{seq}", at)
    return made


def _told_by_others(said: dict[str, Any], author: str, id: str, at: float) -> list[Event]:
    asked = said["role"] == "user" and not _results(said)
    about = {"id": id, "author": "user" if asked else author, "timestamp": at}
    contents = to_dialect([said], "gemini") if said["role"] != "system" else []
    return [Event.model_validate({**about, "content": content}) for content in contents]


def _results(said: dict[str, Any]) -> bool:
    content = said["content"]
    return isinstance(content, list) and any(one["type"] == "tool_result" for one in content)


def _tell(item: dict[str, Any]) -> Words:
    content = item.get("content")
    words = spoken(content, "gemini") if isinstance(content, dict) else []
    usage = item.get("usageMetadata") or {}
    counts = {"input_tokens": "promptTokenCount", "output_tokens": "candidatesTokenCount"}
    spent = {name: usage[theirs] for name, theirs in counts.items() if usage.get(theirs)}
    for type, data in words:
        if type == "assistant" and spent:
            data["usage"] = spent
    delta = by_owner(item.get("actions", {}).get("stateDelta", {}))["session"]
    changes: Words = [(VARIABLE, {"name": name, "value": value}) for name, value in delta.items()]
    if changes and not words:
        words = [("frame", {"direction": "stored"})]
    return [*words, *changes]


def _rebuild(words: Words) -> dict[str, Any]:
    delta = {data["name"]: data["value"] for type, data in words if type == VARIABLE}
    actions = {
        "stateDelta": delta,
        "artifactDelta": {},
        "requestedAuthConfigs": {},
        "requestedToolConfirmations": {},
    }
    item: dict[str, Any] = {"actions": actions, "nodeInfo": {"path": ""}}
    said = [word for word in words if word[0] not in (VARIABLE, "frame")]
    if said:
        role = "user" if said[0][0] in ("user", "tool_result") else "model"
        parts = [_part(block) for word in said for block in blocks_of(*word)]
        item["content"] = {"role": role, "parts": parts}
    return item


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"text": block["text"]}
    if kind == "tool_use":
        call = {"id": block["id"], "name": block["name"], "args": block["input"]}
        return {"functionCall": call}
    if kind == "tool_result":
        response = {"result": block["content"]}
        return {"functionResponse": {"id": block["tool_use_id"], "response": response}}
    return block


FORM = Form("adk/1", _tell, _rebuild)
