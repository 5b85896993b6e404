"""opencode's own exchange file, as ``opencode import`` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.formats import _view as view

VERSION = "1.18.33"  # the release of opencode that imports and resumes these files in our tests

_AGENT = "build"
_NOTHING_USED = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
_DIGEST_CHARS = 14
_MS_BITS = 0xFFFFFFFFFFFF


def session_id(recorded: view.Recorded) -> str:
    """Return the id under which opencode knows the session; newer sessions sort first there."""
    row = recorded.metadata
    # Ids are compared as texts: the complement makes the newest come first.
    time = ~(row.created_at << 12) & _MS_BITS
    return f"ses_{time:012x}{view.digest_id('opencode', row.session_id)[:_DIGEST_CHARS]}"


def write_opencode(recorded: view.Recorded, options: view.ExportOptions) -> Iterator[bytes]:
    """Yield the session, then its messages one by one."""
    writer = _Writer(recorded, options)
    head = b'{"info":' + msgspec.json.encode(writer.info()) + b',"messages":['
    yield from view.listed(head, writer.messages(), b"]}\n")


class _Writer:
    """Converts turns to messages and parts, whose ids sort in their order."""

    def __init__(self, recorded: view.Recorded, options: view.ExportOptions) -> None:
        self._recorded = recorded
        self._options = options
        self._id = session_id(recorded)
        provider, _, model = (options.model or "holdfast/unknown").partition("/")
        self._provider, self._model = provider, model or provider
        self._number = 0
        self._user = ""

    def info(self) -> dict[str, Any]:
        """Return what opencode keeps of a session."""
        row = self._recorded.metadata
        return {
            "id": self._id,
            "slug": f"holdfast-{self._id[-_DIGEST_CHARS:]}",
            "projectID": "global",
            "directory": self._options.cwd,
            "title": row.title or "Untitled Session",
            "version": VERSION,
            "time": {"created": row.created_at, "updated": row.updated_at},
        }

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield a message for each turn; results are with their calls."""
        turns = view.dialogue(self._recorded).turns
        for index, turn in enumerate(turns):
            if turn.role == "assistant":
                yield self._answer(turn, view.results_in(turns[index + 1 : index + 2]))
            elif said := [block for block in turn.blocks if block["type"] != "tool_result"]:
                yield self._prompt(turn, said)

    def _prompt(self, turn: view.DialogueTurn, said: list[view.Block]) -> dict[str, Any]:
        self._user = id = self._next("msg", turn.times[0])
        info = {
            "id": id,
            "sessionID": self._id,
            "role": "user",
            "time": {"created": turn.times[0]},
            "agent": _AGENT,
            "model": {"providerID": self._provider, "modelID": self._model},
        }
        return {"info": info, "parts": [self._part(id, turn.times[0], _said(block)) for block in said]}

    def _answer(self, turn: view.DialogueTurn, results: dict[str, view.Block]) -> dict[str, Any]:
        time = turn.times[0]
        id = self._next("msg", time)
        calls = any(block["type"] == "tool_use" for block in turn.blocks)
        info = {
            "id": id,
            "sessionID": self._id,
            "parentID": self._user,
            "role": "assistant",
            "mode": _AGENT,
            "agent": _AGENT,
            "path": {"cwd": self._options.cwd, "root": "/"},
            "cost": 0,
            "tokens": _NOTHING_USED,
            "providerID": self._provider,
            "modelID": self._model,
            "time": {"created": time, "completed": turn.times[-1]},
            "finish": "tool-calls" if calls else "stop",
        }
        parts: list[dict[str, Any]] = [{"type": "step-start"}]
        parts += [
            _tool(block, results.get(block["id"]), time) if block["type"] == "tool_use" else _said(block)
            for block in turn.blocks
            # Would be sent back as a member that not every provider accepts, and is signed for another one.
            if block["type"] != "thinking"
        ]
        parts.append({"type": "step-finish", "reason": info["finish"], "cost": 0, "tokens": _NOTHING_USED})
        return {"info": info, "parts": [self._part(id, time, part) for part in parts]}

    def _part(self, message: str, time: int, part: dict[str, Any]) -> dict[str, Any]:
        return part | {"id": self._next("prt", time), "sessionID": self._id, "messageID": message}

    def _next(self, kind: str, time: int) -> str:
        self._number += 1
        place = (time << 12) + self._number & _MS_BITS
        return f"{kind}_{place:012x}{view.digest_id(self._id, self._number)[:_DIGEST_CHARS]}"


def _said(block: view.Block) -> dict[str, Any]:
    """Return words unchanged; blocks for which opencode has no part are put into words."""
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    source = block.get("source", {})
    if kind in ("image", "document") and source.get("type") == "base64":
        media = source.get("media_type", "application/octet-stream")
        return {"type": "file", "mime": media, "url": f"data:{media};base64,{source['data']}"}
    return {"type": "text", "text": f"[{kind}]"}


def _tool(block: view.Block, result: view.Block | None, time: int) -> dict[str, Any]:
    state: dict[str, Any] = {"input": block["input"], "time": {"start": time, "end": time}}
    text = view.result_text(result) if result is not None else "(no result)"
    if result is not None and not result.get("is_error"):
        state |= {"status": "completed", "output": text, "title": block["name"], "metadata": {}}
    else:
        state |= {"status": "error", "error": text}
    return {"type": "tool", "tool": block["name"], "callID": block["id"], "state": state}
