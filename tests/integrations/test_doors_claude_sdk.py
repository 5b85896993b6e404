"""Claude Agent SDK: a kill in a tool, an approval elsewhere, a fork, and what others read.

The SDK runs a command, which talks to the model and asks the SDK to run its tools. Here the command
is a script: it goes on from the transcript that it is given, as the SDK hands it over.
"""

from __future__ import annotations

import asyncio
import sys

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    fork_session_via_store,
    project_key_for_directory,
    query,
    tool,
)

import holdfast
from holdfast.errors import UsageError
from holdfast.integrations.claude_sdk import HoldfastSessionStore, durable

pytestmark = pytest.mark.filterwarnings("ignore")

SESSION = "0b1e7f5c-5e1b-4c0f-9d56-3f2c3f1a2b01"
ASKED = "a berth, please"
ALL = [ASKED, "I book it.", "berth in Marstal", "You have: berth in Marstal"]
_COMMAND = """#!{python}
import json, os, sys, uuid
from pathlib import Path

session, mode = os.environ["SESSION"], os.environ["MODE"]
path = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", os.environ["PROJECT"], session + ".jsonl")
entries = []
if any(argument.startswith("--resume") for argument in sys.argv):
    entries = [json.loads(line) for line in path.read_text().splitlines()]

def tell(**message):
    print(json.dumps(message), flush=True)

def record(role, content):
    entry = {{"type": role, "uuid": str(uuid.uuid4()), "sessionId": session,
              "message": {{"role": role, "content": content}}}}
    entries.append(entry)
    tell(type="transcript_mirror", filePath=str(path), entries=[entry])

def blocks(kind):
    contents = [entry["message"]["content"] for entry in entries]
    return [one for all in contents if isinstance(all, list) for one in all if one["type"] == kind]

def ask_server(method, params, **id):
    message = {{"jsonrpc": "2.0", "method": method, "params": params, **id}}
    request = {{"subtype": "mcp_message", "server_name": "port", "message": message}}
    tell(type="control_request", request_id=method, request=request)
    for line in sys.stdin:
        given = json.loads(line)
        if given["type"] == "control_response":
            return given["response"]["response"]["mcp_response"]

def run_tool(use):
    about = {{"name": "script", "version": "1"}}
    begin = {{"protocolVersion": "2025-06-18", "capabilities": {{}}, "clientInfo": about}}
    ask_server("initialize", begin, id=1)
    ask_server("notifications/initialized", {{}})
    answer = ask_server("tools/call", {{"name": "book", "arguments": use["input"]}}, id=2)
    return answer["result"]["content"][0]["text"]

def end(result, **more):
    about = dict(duration_ms=1, duration_api_ms=1, is_error=False, num_turns=1)
    tell(type="result", subtype="success", session_id=session, result=result, **about, **more)

for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "control_request":
        answer = {{"subtype": "success", "request_id": asked["request_id"], "response": {{}}}}
        tell(type="control_response", response=answer)
    if asked["type"] != "user":
        continue
    waiting = blocks("tool_use") if not blocks("tool_result") else []
    if mode != "approved":
        record("user", asked["message"]["content"])
    if waiting and mode == "insist":
        waiting = []
    if waiting and mode != "approved":
        record("assistant", [{{"type": "text", "text": "Nobody knows whether you have it."}}])
        end(json.dumps(waiting))
        continue
    if not waiting:
        id = "call-2" if mode == "insist" else "call-1"
        use = {{"type": "tool_use", "id": id, "name": "mcp__port__book", "input": {{"port": "Marstal"}}}}
        record("assistant", [{{"type": "text", "text": "I book it."}}])
        record("assistant", [use])
        waiting = [use]
    if mode == "deferred":
        end("", deferred_tool_use={{name: use[name] for name in ("id", "name", "input")}})
        continue
    result = run_tool(waiting[0])
    record("user", [{{"type": "tool_result", "tool_use_id": waiting[0]["id"], "content": result}}])
    record("assistant", [{{"type": "text", "text": "You have: " + result}}])
    end("You have: " + result)
"""


def _key(harbour):
    return {"project_key": project_key_for_directory(str(harbour.store.parent)), "session_id": SESSION}


class _Store(HoldfastSessionStore):
    def __init__(self, hf, called):
        super().__init__(hf)
        self._called = called

    async def append(self, key, entries):
        await super().append(key, entries)
        if "call-" in str(entries):
            self._called.set()


def _query(harbour, prompt, mode, say=None, *, once=False, unknown="tell"):
    """One run of the SDK with the store; its result."""
    command = harbour.store.parent / "claude"
    if not command.exists():
        command.write_text(_COMMAND.format(python=sys.executable))
        command.chmod(0o755)
    called = asyncio.Event()
    store, key = _Store(harbour.store, called), _key(harbour)

    @tool("book", "Book a berth, which can be seen outside.", {"port": str})
    async def book(args):
        if say is not None:
            await called.wait()  # the call is handed on in the background
        return {"content": [{"type": "text", "text": harbour.book(args["port"], say)}]}

    tools = [durable(book, session=store, key=key, unknown=unknown) if once else book]

    async def run():
        options = ClaudeAgentOptions(
            cli_path=command,
            cwd=harbour.store.parent,
            env={
                "SESSION": SESSION,
                "PROJECT": key["project_key"],
                "CLAUDE_CONFIG_DIR": str(harbour.store.parent / "config"),
                "MODE": mode,
            },
            mcp_servers={"port": create_sdk_mcp_server("port", tools=tools)},
            session_store=store,
            session_store_flush="eager",
            resume=SESSION if await store.load(key) else None,
        )
        messages = [message async for message in query(prompt=prompt, options=options)]
        return next(one for one in messages if isinstance(one, ResultMessage))

    return asyncio.run(run())


def test_kill_in_a_tool(processes, readers, harbour):
    """The call is on record; the command is given it without a result, and decides: booked once."""
    processes.killed(lambda say: _query(harbour, ASKED, "run", say))
    readers.all_have(harbour.only_id(), ASKED, "I book it.", "Marstal")
    (given,) = processes.finished(lambda say: say(_query(harbour, "Go on", "run").result))
    assert "call-1" in given
    assert harbour.booked == ["Marstal"]
    readers.all_have(harbour.only_id(), ASKED, "Go on", "Nobody knows whether you have it.")


@pytest.mark.parametrize(("once", "booked"), [(True, 1), (False, 2)])
def test_kill_in_a_durable_tool(processes, readers, harbour, once, booked):
    """A model that calls again is told that the outcome is unknown: booked once, and twice by a tool that is not."""
    processes.killed(lambda say: _query(harbour, ASKED, "run", say, once=once))
    (told,) = processes.finished(lambda say: say(_query(harbour, "Go on", "insist", once=once).result))
    unknown = "You have: Outcome unknown: a call of book with these arguments began"
    assert told.startswith(unknown if once else ALL[-1])
    assert harbour.booked == ["Marstal"] * booked
    if once:  # the model has its answer: an identical call is a new one
        processes.finished(lambda say: _query(harbour, "And another", "insist", once=True))
        assert harbour.booked == ["Marstal"] * 2


def _found(step):
    return {"content": [{"type": "text", "text": f"found in {step.arguments['port']}"}]}


@pytest.mark.parametrize(("unknown", "told", "booked"), [("rerun", "berth", 2), (_found, "found", 1)])
def test_what_becomes_of_a_call_whose_outcome_is_unknown(processes, harbour, unknown, told, booked):
    """It runs again, or is looked up, where the program says so."""
    processes.killed(lambda say: _query(harbour, ASKED, "run", say, once=True))
    again = {"once": True, "unknown": unknown}
    (said,) = processes.finished(lambda say: say(_query(harbour, "Go on", "insist", **again).result))
    assert said == f"You have: {told} in Marstal"
    assert harbour.booked == ["Marstal"] * booked


def test_a_result_that_never_reached_the_conversation_is_given_to_the_next_call(processes, harbour):
    """The tool had ended when the process died: its result is known, and nothing runs again; later calls do."""
    key = {"project_key": "p", "session_id": SESSION}

    def call(say):
        @tool("book", "Book a berth, which can be seen outside.", {"port": str})
        async def book(args):
            return {"content": [{"type": "text", "text": harbour.book(args["port"])}]}

        store = HoldfastSessionStore(harbour.store)
        made = durable(book, session=store, key=key)
        say(asyncio.run(made.handler({"port": "Marstal"}))["content"][0]["text"])
        say.wait()

    processes.killed(call)
    assert processes.finished(call) == ["berth in Marstal"]
    assert harbour.booked == ["Marstal"]


def test_a_durable_tool_belongs_to_a_session(harbour):
    """A transcript beside a session is none."""
    store = HoldfastSessionStore(harbour.store)
    with pytest.raises(UsageError, match="beside"):
        durable(None, session=store, key=_key(harbour) | {"subpath": "agent-1"})


def test_approval_in_another_process(processes, readers, harbour):
    """A call that a hook deferred outlives a kill -9, and is given to the command as it was."""

    def ask(say):
        deferred = _query(harbour, ASKED, "deferred").deferred_tool_use
        say([deferred.id, deferred.name])
        say.wait()

    assert processes.killed(ask) == [["call-1", "mcp__port__book"]]
    own = harbour.only_id()
    readers.all_have(own, ASKED, "Marstal")  # to read it spoils nothing
    harbour.repair(own)  # nor to open it, which repairs what a crash left
    told = processes.finished(lambda say: say(_query(harbour, "yes", "approved").result))
    assert told == ALL[-1:]
    assert harbour.booked == ["Marstal"]
    readers.all_have(own, *ALL)


def _said(text, number):
    uuid = f"0b1e7f5c-5e1b-4c0f-9d56-{number:012d}"
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": SESSION, "message": message}


def test_fork(readers, harbour):
    """A fork of the SDK, and one of the library, are sessions of their own."""
    _query(harbour, ASKED, "run")
    own = harbour.only_id()
    with holdfast.open(harbour.store) as hf:
        store, key = HoldfastSessionStore(hf), _key(harbour)

        async def fork():
            theirs = await fork_session_via_store(store, SESSION, directory=str(harbour.store.parent))
            ours = hf.fork(own)
            for number, (id, word) in enumerate(
                ((theirs.session_id, "lighthouse"), (ours, "mole"), (SESSION, "harbour"))
            ):
                await store.append({**key, "session_id": id}, [_said(word, number)])
            return ours

        ours = asyncio.run(fork())
        (theirs,) = {about.session_id for about in hf.list()} - {own, ours}
    readers.keep_apart((own, "harbour", ALL), (ours, "mole", ALL), (theirs, "lighthouse", ALL))


def test_what_search_sees(readers, harbour):
    """Messages, calls and results; not entries that are no messages."""
    _query(harbour, ASKED, "run")
    title = {"type": "custom-title", "customTitle": "In a title", "sessionId": SESSION}
    asyncio.run(HoldfastSessionStore(harbour.store).append(_key(harbour), [title]))
    readers.all_have(harbour.only_id(), *ALL, "Marstal")
    readers.none_has(harbour.only_id(), "In a title")
