"""An agent for tests, over bare JSON-RPC lines: it does what its arguments and the prompt say.

It needs the standard library only, so that it starts quickly. What it can do is chosen with
``yes`` (announced and done), ``no`` (neither), ``hidden`` (done, not announced), ``fails``
(announced, answers an error), ``missing`` (announced, answers "no such method") and ``hangs``
(announced, never answers). ``--load`` also takes ``late``: the answer comes before the replay, and
the replay out of order.

Words in a prompt: "use tool" calls a tool and asks for permission, "wait" waits to be cancelled,
"read PATH" and "write PATH" use the client's files, "think" thinks first, "plan" makes a plan,
"refuse" stops with a refusal, "error" answers an error, "run" uses the client's terminal,
"stranger" asks for a file in the name of a session that nobody knows, "say JSON" says each text of
a list, and reads a file, makes a plan, is silent or waits where there is {"read": PATH},
{"plan": true}, {"silent": SECONDS} or {"wait": true}.
Every answer ends with what the agent knows of the conversation, and with what it was told in
blocks before the last one of the prompt, both as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WAYS = ("yes", "no", "hidden", "fails", "missing", "hangs")
METHODS = ("load", "resume", "list", "fork", "close", "delete")
PHASES = ("initialize", "new", "prompt", "stream", "tool", "permission", "load", "resume")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    for name in METHODS:
        ways = (*WAYS, "late") if name == "load" else WAYS
        parser.add_argument(f"--{name}", choices=ways, default="no")
    parser.add_argument("--die", choices=PHASES, help="end with SIGKILL's manners at this point")
    parser.add_argument("--die-once", metavar="FILE", help="only if FILE is not there; make it")
    parser.add_argument("--flood", type=int, default=0, metavar="N", help="chunks in an answer")
    parser.add_argument("--store", metavar="FILE", help="keep sessions in FILE")
    parser.add_argument("--forget", type=int, default=0, metavar="N", help="messages of the end")
    parser.add_argument("--context", action="store_true", help="replay words of its own, too")
    parser.add_argument("--login", metavar="ID", help="refuse sessions until authenticated by ID")
    parser.add_argument("--terse", action="store_true", help="answer session/load with null")
    parser.add_argument("--journal", metavar="FILE", help="write every frame that came into FILE")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before a late replay")
    parser.add_argument("--noise", action="store_true", help="write what is no JSON, too")
    parser.add_argument("--usage", action="store_true", help="tell tokens with each answer")
    parser.add_argument("--deaf", action="store_true", help="go on when asked to end")
    parser.add_argument("--commands", action="store_true", help="tell commands of new sessions")
    parser.add_argument("--stubborn", action="store_true", help="do not stop when cancelled")
    parser.add_argument("--rude", action="store_true", help="ask before anyone greeted it")
    parser.add_argument("--nameless", action="store_true", help="give no agentInfo")
    parser.add_argument("--counts", action="store_true", help="number sessions from one")
    parser.add_argument("--new", choices=("yes", "hangs"), default="yes")
    parser.add_argument("--full", metavar="FILE", help="make no sessions while FILE is there")
    parser.add_argument("--survivor", action="store_true", help="leave a child behind at death")
    return parser.parse_args()


class Refusal(Exception):
    """Becomes the error of a response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Scripted:
    """One connection."""

    def __init__(self, wishes: argparse.Namespace) -> None:
        self.wishes = wishes
        self.sessions: dict[str, dict[str, Any]] = {}
        self.cancelled: set[str] = set()
        self.numbers = itertools.count(1)
        self.answers: dict[str, dict[str, Any]] = {}
        if wishes.store and Path(wishes.store).exists():
            self.sessions = json.loads(Path(wishes.store).read_text())
            for session in self.sessions.values():
                kept = len(session["turns"]) - wishes.forget
                session["turns"] = session["turns"][: max(kept, 0)]
        self.live: set[str] = set()
        self.logged_in = False

    # -- the wire ------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the input ends."""
        if self.wishes.deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.wishes.rude:
            self.ask("fs/read_text_file", {"path": "/etc/passwd"})
        while (frame := self.read()) is not None:
            self.handle(frame)
        while self.wishes.deaf:
            time.sleep(60)

    def read(self) -> dict[str, Any] | None:
        line = sys.stdin.readline()
        if not line:
            return None
        if self.wishes.journal:
            with Path(self.wishes.journal).open("a") as journal:
                journal.write(line)
        frame: dict[str, Any] = json.loads(line)
        return frame

    def write(self, frame: dict[str, Any]) -> None:
        if self.wishes.noise:
            sys.stdout.write("this is no frame\n")
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        sys.stdout.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client; whatever else comes meanwhile is served."""
        number = f"agent-{next(self.numbers)}"
        self.write({"id": number, "method": method, "params": params})
        while number not in self.answers:
            frame = self.read()
            if frame is None:
                sys.exit(0)
            self.handle(frame)
        return self.answers.pop(number)

    def handle(self, frame: dict[str, Any]) -> None:
        method = frame.get("method")
        if method is None:
            self.answers[str(frame.get("id"))] = frame
            return
        if method == "session/cancel" and self.wishes.stubborn:
            return
        if method == "session/cancel":
            self.cancelled.add(frame["params"]["sessionId"])
            return
        if "id" not in frame:
            return
        try:
            result = self.serve(method, frame.get("params") or {}, frame["id"])
        except Refusal as refusal:
            error = {"code": refusal.code, "message": str(refusal)}
            self.write({"id": frame["id"], "error": error})
            return
        if result is not None:
            self.write({"id": frame["id"], "result": result})

    def update(self, session: str, what: str, /, **members: Any) -> None:
        update = {"sessionUpdate": what, **members}
        self.write({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def say(self, session: str, text: str, kind: str = "agent_message_chunk") -> None:
        self.update(session, kind, content={"type": "text", "text": text})

    def die(self, phase: str) -> None:
        """End here if this is the phase to die in."""
        if self.wishes.die != phase:
            return
        if self.wishes.die_once:
            if Path(self.wishes.die_once).exists():
                return
            Path(self.wishes.die_once).touch()
        sys.stdout.flush()
        if self.wishes.survivor:
            subprocess.Popen(["sleep", "600"])  # with the output of its parent
        os._exit(9)

    # -- methods -------------------------------------------------------------------------------

    def serve(self, method: str, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        """The result; None if the answer was written already or never comes."""
        if method == "initialize":
            self.die("initialize")
            return self.initialize()
        if method == "authenticate":
            if params.get("methodId") != self.wishes.login:
                raise Refusal(-32602, "no such method of authentication")
            self.logged_in = True
            return {}
        if self.wishes.login and not self.logged_in:
            raise Refusal(-32000, "Authentication required")
        if method == "session/new":
            return self.do_new(params)
        if method == "session/prompt":
            return self.prompt(params)
        name = method.removeprefix("session/")
        if name not in METHODS:
            raise Refusal(-32601, f"no such method: {method}")
        self.die(name)
        way = getattr(self.wishes, name)
        if way in ("no", "missing"):
            raise Refusal(-32601, f"no such method: {method}")
        if way == "fails":
            raise Refusal(-32603, "No previous sessions found for this project")
        if way == "hangs":
            return None
        found: dict[str, Any] | None = getattr(self, f"do_{name}")(params, number)
        return found

    def initialize(self) -> dict[str, Any]:
        announced = {name: getattr(self.wishes, name) not in ("no", "hidden") for name in METHODS if name != "load"}
        found: dict[str, Any] = {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self.wishes.load not in ("no", "hidden"),
                "promptCapabilities": {"image": True, "embeddedContext": True},
                "sessionCapabilities": {name: {} for name, yes in announced.items() if yes},
            },
            "authMethods": [],
        }
        if not self.wishes.nameless:
            found["agentInfo"] = {"name": "scripted", "version": "1.0"}
        return found

    def make(self, params: dict[str, Any], turns: list[Any]) -> str:
        number = next(self.numbers)
        id = f"s{number}" if self.wishes.counts else f"scripted-{os.getpid()}-{number}"
        self.sessions[id] = {"cwd": params.get("cwd"), "turns": turns}
        self.live.add(id)
        self.keep()
        return id

    def keep(self) -> None:
        if self.wishes.store:
            half = Path(f"{self.wishes.store}.{os.getpid()}")
            half.write_text(json.dumps(self.sessions))
            half.replace(self.wishes.store)  # it may be killed at any time

    def known(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.sessions[params["sessionId"]]
        except KeyError:
            raise Refusal(-32002, "no such session") from None

    def do_new(self, params: dict[str, Any]) -> dict[str, Any] | None:
        self.die("new")
        if self.wishes.new == "hangs":
            return None
        if self.wishes.full and Path(self.wishes.full).exists():
            raise Refusal(-32603, "no more sessions")
        id = self.make(params, [])
        if self.wishes.commands:
            # Some agents tell this before they answer.
            self.update(id, "available_commands_update", availableCommands=[])
        return {"sessionId": id}

    def do_load(self, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        session = self.known(params)
        id = params["sessionId"]
        self.live.add(id)
        replay = [
            ("user_message_chunk" if role == "user" else "agent_message_chunk", text) for role, text in session["turns"]
        ]
        if self.wishes.context:
            self.say(id, "<context>It is Monday.</context>", "user_message_chunk")
        if self.wishes.load == "late":
            self.write({"id": number, "result": {}})
            replay.reverse()
        for kind, text in replay:
            if self.wishes.load == "late":
                time.sleep(self.wishes.delay)
            self.say(id, text, kind)
        if self.wishes.terse:
            self.write({"id": number, "result": None})
        return None if self.wishes.load == "late" or self.wishes.terse else {"modes": None}

    def do_resume(self, params: dict[str, Any], _number: Any) -> dict[str, Any]:
        self.known(params)
        self.live.add(params["sessionId"])
        return {}

    def do_list(self, _params: dict[str, Any], _number: Any) -> dict[str, Any]:
        found = [{"sessionId": id, "cwd": one["cwd"]} for id, one in self.sessions.items()]
        return {"sessions": found}

    def do_fork(self, params: dict[str, Any], _number: Any) -> dict[str, Any]:
        return {"sessionId": self.make(params, list(self.known(params)["turns"]))}

    def do_close(self, params: dict[str, Any], _number: Any) -> dict[str, Any]:
        self.live.discard(params["sessionId"])
        return {}

    def do_delete(self, params: dict[str, Any], _number: Any) -> dict[str, Any]:
        self.sessions.pop(params["sessionId"], None)
        self.keep()
        return {}

    # -- a turn --------------------------------------------------------------------------------

    def prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        id = params["sessionId"]
        if id not in self.live:
            raise Refusal(-32002, f"no such session: {id}")
        self.die("prompt")
        *told, request = [block.get("text", "") for block in params["prompt"]]
        text = "\n".join([*told, request])
        turns = self.sessions[id]["turns"]
        known = json.dumps([said for _, said in turns])
        turns.append(["user", text])
        self.keep()
        reason = self.act(id, request)
        answer = f"You said {request!r}. I know {known}."
        if told:
            answer += f" I was told {json.dumps(told)}."
        if reason == "end_turn":
            self.stream(id, answer)
            turns.append(["assistant", answer])
            self.keep()
        self.cancelled.discard(id)
        result: dict[str, Any] = {"stopReason": reason}
        if self.wishes.usage:
            result["usage"] = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        return result

    def stream(self, id: str, answer: str) -> None:
        middle = len(answer) // 2
        self.say(id, answer[:middle])
        self.die("stream")
        for number in range(self.wishes.flood):
            self.say(id, f" {number}")
        self.say(id, answer[middle:])

    def act(self, id: str, request: str) -> str:
        """What the prompt asks for besides an answer; how the turn ends."""
        if request.startswith("say "):
            return self.say_pieces(id, json.loads(request.removeprefix("say ")))
        if "error" in request:
            raise Refusal(-32603, "the model is gone")
        if "refuse" in request:
            return "refusal"
        if "think" in request:
            self.say(id, "Let me think.", "agent_thought_chunk")
        if "plan" in request:
            entry = {"content": "look", "priority": "high", "status": "in_progress"}
            self.update(id, "plan", entries=[entry])
        if "wait" in request:
            return self.wait(id)
        if "stranger" in request:
            answer = self.ask("fs/read_text_file", {"sessionId": "nobody", "path": "/a"})
            self.say(id, json.dumps(answer))
        if "use tool" in request:
            return self.use_tool(id)
        self.use_client(id, request)
        return "end_turn"

    def say_pieces(self, id: str, pieces: list[Any]) -> str:
        for piece in pieces:
            if piece == {"wait": True}:
                return self.wait(id, words="")
            if piece == {"plan": True}:
                self.update(id, "plan", entries=[])
            elif isinstance(piece, dict) and "silent" in piece:
                time.sleep(piece["silent"])
            elif isinstance(piece, dict):
                self.ask("fs/read_text_file", {"sessionId": id, "path": piece["read"]})
            else:
                self.say(id, piece)
        return "end_turn"

    def wait(self, id: str, words: str = "Waiting.") -> str:
        if words:
            self.say(id, words)
        while id not in self.cancelled:
            frame = self.read()
            if frame is None:
                sys.exit(0)
            self.handle(frame)
        return "cancelled"

    def use_tool(self, id: str) -> str:
        call = f"call-{next(self.numbers)}"
        intent = {"toolCallId": call, "title": "List files", "kind": "execute"}
        self.update(id, "tool_call", **intent, status="pending", rawInput={"command": "ls"})
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        self.die("permission")
        params = {"sessionId": id, "toolCall": {**intent, "status": "pending"}, "options": options}
        answer = self.ask("session/request_permission", params)
        outcome = answer.get("result", {}).get("outcome", {})
        if outcome.get("outcome") == "cancelled":
            self.update(id, "tool_call_update", toolCallId=call, status="failed")
            return "cancelled"
        self.update(id, "tool_call_update", toolCallId=call, status="in_progress")
        self.die("tool")
        done = outcome.get("optionId") != "no"
        text = {"type": "text", "text": "a.txt" if done else "not allowed"}
        self.update(
            id,
            "tool_call_update",
            toolCallId=call,
            status="completed" if done else "failed",
            content=[{"type": "content", "content": text}],
        )
        return "end_turn"

    def use_client(self, id: str, request: str) -> None:
        verb, _, path = request.partition(" ")
        params = {"sessionId": id, "path": path}
        if verb == "read":
            answer = self.ask("fs/read_text_file", params)
        elif verb == "write":
            answer = self.ask("fs/write_text_file", {**params, "content": "written"})
        elif verb == "run":
            answer = self.ask("terminal/create", {"sessionId": id, "command": path})
        else:
            return
        told = answer.get("result", answer.get("error"))
        self.say(id, f"The client answered {json.dumps(told)}. ")


if __name__ == "__main__":
    Scripted(arguments()).run()
