"""An agent for tests that tells of its one tool call in the manner of others, and then makes it.

``--tells`` is how: "asking" (by the question alone, as Gemini CLI does: the command is its title),
"empty" (announced with an empty input, asked about with the whole of it: Qwen Code), "growing"
(announced with a part of the input, under way with the rest, asked about with less: opencode),
"after" (asked about, and announced only when it has ended), "unasked" (under way with an empty
input, which comes later, and no question at all).

It goes on until ``--stop``: "asked", "answered" or "running", leaves a file of that name beside
``--mark``, and waits there to be killed; without ``--stop`` it ends its turns. Running leaves a
file "deployed" in the session's folder. Its answer is all that it was told.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = "./deploy.sh production"
WAYS = ("asking", "empty", "growing", "after", "unasked")
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def send(**frame: Any) -> None:
    """Write one frame."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


class Late:
    """One connection."""

    def __init__(self, wishes: argparse.Namespace) -> None:
        self.wishes = wishes
        self.cwd = "."

    def run(self) -> None:
        """Serve until the input ends."""
        for line in sys.stdin:
            frame = json.loads(line)
            method, params = frame.get("method"), frame.get("params", {})
            if method == "initialize":
                can = {"sessionCapabilities": {"resume": {}}} if self.wishes.resumes else {}
                send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": can})
            elif method in ("session/new", "session/resume"):
                self.cwd = params["cwd"]
                send(id=frame["id"], result={"sessionId": "s"})
            elif method == "session/prompt":
                texts = [block["text"] for block in params["prompt"]]
                if texts[-1] == "deploy":
                    self.deploy()
                self.update("agent_message_chunk", content={"type": "text", "text": " / ".join(texts)})
                send(id=frame["id"], result={"stopReason": "end_turn"})

    def update(self, kind: str, /, **members: Any) -> None:
        send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": kind, **members}})

    def call(self, kind: str, /, **members: Any) -> None:
        self.update(kind, toolCallId="c1", **members)

    def stop(self, moment: str) -> None:
        """Wait to be killed, if this is the moment."""
        if self.wishes.stop == moment:
            (Path(self.wishes.mark) / moment).touch()
            time.sleep(600)

    def deploy(self) -> None:
        way, whole = self.wishes.tells, {"command": COMMAND, "timeout": 9}
        asked: dict[str, Any] = {"title": COMMAND, "kind": "execute", "rawInput": whole}
        if way == "asking":
            about = {"type": "text", "text": f"[current working directory {self.cwd}]"}
            asked = {"title": COMMAND, "kind": "execute", "locations": []}
            asked["content"] = [{"type": "content", "content": about}]
        elif way == "empty":
            self.call("tool_call", title="Shell", kind="execute", status="pending", rawInput={})
        elif way == "growing":
            part = {"cwd": self.cwd}
            self.call("tool_call", title="bash", kind="execute", status="pending", rawInput=part)
            more = {"title": COMMAND, "rawInput": {**part, **whole}}
            self.call("tool_call_update", status="in_progress", **more)
            asked["rawInput"] = {"command": COMMAND}
        elif way == "unasked":
            self.call("tool_call", title="bash", kind="execute", status="in_progress", rawInput={})
            self.call("tool_call_update", title=COMMAND, rawInput=whole)
        is_allowed = way == "unasked" or self.ask(asked)
        self.stop("answered")
        if is_allowed:
            (Path(self.cwd) / "deployed").touch()
        self.stop("running")
        kind = "tool_call" if way == "after" else "tool_call_update"
        told = {"title": COMMAND, "kind": "execute"} if way == "after" else {}
        self.call(kind, status="completed" if is_allowed else "failed", **told)

    def ask(self, about: dict[str, Any]) -> bool:
        call = {"toolCallId": "c1", "status": "pending", **about}
        params = {"sessionId": "s", "toolCall": call, "options": OPTIONS}
        send(id="q", method="session/request_permission", params=params)
        self.stop("asked")
        answer = json.loads(sys.stdin.readline())
        return answer["result"]["outcome"].get("optionId") == "yes"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tells", choices=WAYS, required=True)
    parser.add_argument("--stop", choices=("asked", "answered", "running"))
    parser.add_argument("--mark", default=".")
    parser.add_argument("--resumes", action="store_true")
    Late(parser.parse_args()).run()
