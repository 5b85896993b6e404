"""Gemini CLI's own conversation record, as ``gemini --session-file`` takes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.formats import _view as view

VERSION = "0.61.0"  # the release of Gemini CLI that resumes these files in our tests


def session_id(recorded: view.Recorded) -> str:
    """Return the id in the file; Gemini CLI gives a new one at each import."""
    return view.stable_uuid("gemini-cli", recorded.metadata.session_id)


def write_gemini_cli(recorded: view.Recorded, options: view.ExportOptions) -> Iterator[bytes]:
    """Yield one document: the head, then the messages one by one."""
    row = recorded.metadata
    own = session_id(recorded)
    # Gemini CLI finds a project's sessions by the hash of the folder.
    head = {
        "sessionId": own,
        "projectHash": hashlib.sha256(options.cwd.encode("utf-8", "replace")).hexdigest(),
        "startTime": view.iso(row.created_at),
        "lastUpdated": view.iso(row.updated_at),
        "kind": "main",
    }
    begun = msgspec.json.encode(head)[:-1] + b',"messages":['
    yield from view.listed(begun, _messages(view.dialogue(recorded).turns, own), b"]}\n")


def _messages(turns: list[view.DialogueTurn], own: str) -> Iterator[dict[str, Any]]:
    for number, turn in enumerate(turns):
        after = view.results_in(turns[number + 1 : number + 2])
        head = {"id": view.stable_uuid(own, number), "timestamp": view.iso(turn.times[0])}
        if turn.role == "assistant":
            yield head | _answer(turn, after)
            continue
        # Results are with their calls, where Gemini CLI reads them.
        said = [block for block in turn.blocks if block["type"] != "tool_result"]
        messages = view.in_dialect(turn._replace(blocks=said), "gemini") if said else []
        if parts := [part for message in messages for part in message.get("parts", [])]:
            yield head | {"type": "user", "content": parts}


def _answer(turn: view.DialogueTurn, results: dict[str, view.Block]) -> dict[str, Any]:
    calls = [block for block in turn.blocks if block["type"] == "tool_use"]
    said = [block["text"] for block in turn.blocks if block["type"] == "text"]
    thoughts = [
        {"subject": "", "description": block["thinking"], "timestamp": view.iso(turn.times[0])}
        for block in turn.blocks
        if block["type"] == "thinking"
    ]
    answer: dict[str, Any] = {"type": "gemini", "content": "\n\n".join(said), "thoughts": thoughts}
    if calls:
        answer["toolCalls"] = [_call(block, results.get(block["id"]), view.iso(turn.times[0])) for block in calls]
    return answer


def _call(block: view.Block, result: view.Block | None, time: str) -> dict[str, Any]:
    failed = result is None or bool(result.get("is_error"))
    text = "(no result)" if result is None else view.result_text(result)
    response = {"id": block["id"], "name": block["name"], "response": {"error" if failed else "output": text}}
    return {
        "id": block["id"],
        "name": block["name"],
        "args": block["input"],
        "result": [{"functionResponse": response}],
        "status": "error" if failed else "success",
        "timestamp": time,
        "resultDisplay": text,
        "displayName": block["name"],
        "description": "",
    }
