"""A minimal ACP agent: each prompt is answered with the same prepared frames."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_SESSION = "bench"
_WORDS = "a few words of an answer, as they come from a model "


def frames(kind: str, count: int) -> list[bytes]:
    """Return the lines of one turn."""
    make = _chunk if kind == "chunks" else _mixed
    return [_line({"method": "session/update", "params": _about(make(n))}) for n in range(count)]


def _about(update: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": _SESSION, "update": update}


def _chunk(number: int) -> dict[str, Any]:
    text = {"type": "text", "text": f"{_WORDS}{number} "}
    return {"sessionUpdate": "agent_message_chunk", "content": text}


def _mixed(number: int) -> dict[str, Any]:
    """Return an update: of ten, six are text, and four a tool call with its progress and end."""
    call = {"toolCallId": f"call-{number // 10}"}
    place = number % 10
    if place == 6:
        about = {"title": "Read notes.txt", "kind": "read", "status": "pending"}
        return {"sessionUpdate": "tool_call", **call, **about, "rawInput": {"path": "notes.txt"}}
    if place in (7, 8):
        return {"sessionUpdate": "tool_call_update", **call, "status": "in_progress"}
    if place == 9:
        text = {"type": "content", "content": {"type": "text", "text": "x" * 400}}
        return {"sessionUpdate": "tool_call_update", **call, "status": "completed", "content": [text]}
    return {**_chunk(number), "messageId": f"message-{number // 10}"}


def _line(frame: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **frame}, separators=(",", ":")).encode() + b"\n"


def main() -> None:
    """Serve on standard input and output."""
    turn = frames(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        frame = json.loads(line)
        method, result = frame.get("method"), {}
        if method == "initialize":
            info = {"name": "bench", "version": "1"}
            result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}
        elif method == "session/new":
            result = {"sessionId": _SESSION}
        elif method == "session/prompt":
            for each in turn:
                os.write(1, each)
            result = {"stopReason": "end_turn"}
        if "id" in frame:
            os.write(1, _line({"id": frame["id"], "result": result}))


if __name__ == "__main__":
    main()
