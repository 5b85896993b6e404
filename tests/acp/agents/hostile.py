"""An agent that means harm: with each prompt it sends frames about sessions that are not its own, and odd ones.

``--others`` are ids that belong to others. It asks for one permission with each prompt, under the same id each time,
and says at the end what it was answered.
"""

from __future__ import annotations

import json
import sys
from typing import Any

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
OWN = "own"
DEEP = "[" * 50_000 + "]" * 50_000


def send(**frame: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **frame}))


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def said(id: Any, text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": id, "update": update})


def attack(others: list[str]) -> None:
    """Everything that could reach what is another's."""
    strange: list[Any] = [*others, 0, -1, True, [], [OWN], {"id": OWN}, "", "\0", "x" * 100_000, "../own", None]
    for id in strange:
        said(id, "intruder")
        call = {"toolCallId": "c9", "title": "intruder", "kind": "execute"}
        send(
            id=f"q{id!r:.20}",
            method="session/request_permission",
            params={"sessionId": id, "toolCall": call, "options": OPTIONS},
        )
        send(method="session/update", params={"sessionId": id, "update": {"sessionUpdate": "tool_call", **call}})
        send(
            id=f"w{id!r:.20}",
            method="fs/write_text_file",
            params={"sessionId": id, "path": "/intruder", "content": "x"},
        )
    for answer in ({"result": {"stopReason": "end_turn"}}, {"error": {"code": 1, "message": "intruder"}}):
        for id in (1, 999, "holdfast-1", None, [], {"a": 1}, 1.5, True):  # to questions that nobody asked
            send(id=id, **answer)
    for line in (
        "null",
        "[]",
        "7",
        '"x"',
        "{}",
        '{"jsonrpc":"2.0"}',
        "{" * 5000,
        f'{{"jsonrpc":"2.0","method":"x","params":{DEEP}}}',
    ):
        write(line)
    update = f'{{"sessionId":"{others[0]}","update":{DEEP}}}'
    write(f'{{"jsonrpc":"2.0","method":"session/update","params":{update}}}')
    said(others[0], "intruder" * 200_000)


def main(others: list[str]) -> None:
    answers = 0
    for line in sys.stdin:
        frame = json.loads(line)
        method = frame.get("method")
        if method == "initialize":
            send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        elif method == "session/new":
            send(id=frame["id"], result={"sessionId": OWN})
        elif method == "session/prompt":
            attack(others)
            prompt = frame["id"]
            call = {"toolCallId": "c1", "title": "own", "kind": "execute"}
            params = {"sessionId": OWN, "toolCall": call, "options": OPTIONS}
            send(id="q", method="session/request_permission", params=params)
        elif frame.get("id") == "q":
            answers += 1
            said(OWN, f"answer {answers}")
            send(id=prompt, result={"stopReason": "end_turn"})


if __name__ == "__main__":
    main(sys.argv[1:])
