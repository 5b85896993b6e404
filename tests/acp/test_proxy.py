"""The proxy between an editor and an agent: recorded before it is shown, whatever the agent can."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from holdfast.apps.acp.handover import Waits

CAN_ALL = {"list", "resume", "fork", "close", "delete"}


def patience(way):
    """None is lost on an agent that never answers, but only on that one."""
    return 10 if way == "hangs" else 120


def text_of(updates, kind="agent_message_chunk"):
    """The text of all chunks of one kind, joined."""
    return "".join(u["content"].get("text", "") for u in updates if u["sessionUpdate"] == kind)


def statuses(updates):
    """The last status of each tool call."""
    return {u["toolCallId"]: u["status"] for u in updates if u.get("status")}


# --- passing through ------------------------------------------------------------------------------


def test_what_is_advertised_does_not_depend_on_the_agent(proxy):
    """Load, list, resume, fork, close and delete are offered in front of an agent with none."""
    hello = proxy("--load", "no").hello
    can = hello["agentCapabilities"]
    assert can["loadSession"] is True
    assert set(can["sessionCapabilities"]) >= CAN_ALL
    assert can["promptCapabilities"] == {"image": True, "embeddedContext": True}
    assert hello["agentInfo"]["name"] == "scripted"


def test_a_prompt_and_its_answer_pass_and_are_recorded(proxy, tmp_path, kept):
    """The editor sees what the agent said, and the log has both sides of it."""
    editor = proxy()
    id = editor.new(tmp_path)
    assert editor.prompt(id, "hello there")["stopReason"] == "end_turn"
    said = text_of(editor.updates())
    assert said
    messages = kept.recover(id, "neutral").messages
    assert messages[0] == {"role": "user", "content": "hello there"}
    assert messages[1]["content"] == said


@pytest.mark.req("S4-7")
def test_our_id_is_outside_and_the_agents_inside(proxy, tmp_path, kept, journal):
    """The editor never sees the agent's id; the log has it as a link."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    (prompt,) = journal("session/prompt")
    inside = prompt["params"]["sessionId"]
    assert inside != id
    assert kept.state(id).links["acp"] == [inside]
    assert inside not in json.dumps(editor.seen)


def test_what_the_agent_asks_of_the_editor_comes_back_to_it(proxy, tmp_path, journal):
    """Requests of the agent reach the editor under other ids, and the answers come back."""
    editor = proxy()
    id = editor.new(tmp_path)
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "read /a.txt"}])
    asked = editor.until(lambda frame: frame.get("method") == "fs/read_text_file")
    assert asked["params"] == {"sessionId": id, "path": "/a.txt"}
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": "what it holds"}})
    editor.wait(number)
    assert "what it holds" in text_of(editor.updates())
    assert [frame["id"] for frame in journal() if "result" in frame] == ["agent-2"]


def test_a_tool_call_with_its_permission_is_recorded(proxy, tmp_path, kept):
    """Intent, question, decision and outcome are in the log, in this order."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.prompt(id, "use tool")
    types = [event.type for event in kept.events(id)]
    call, decision, result = (types.index(t) for t in ("tool_call", "permission", "tool_result"))
    assert call < decision < result
    asked, permission = kept.events(id, types={"permission"})
    assert (asked.data["decision"], permission.data["decision"]) == ("ask", "allow")
    blocks = [b for m in kept.recover(id, "neutral").messages for b in m["content"]]
    assert {"tool_use", "tool_result"} <= {b["type"] for b in blocks if isinstance(b, dict)}


def test_a_cancelled_turn_ends_as_cancelled(proxy, tmp_path, kept):
    """The notification reaches the agent, and the turn's end is recorded as what it was."""
    editor = proxy()
    id = editor.new(tmp_path)
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "wait"}])
    editor.until(lambda frame: frame.get("method") == "session/update")
    editor.tell("session/cancel", sessionId=id)
    assert editor.wait(number)["result"]["stopReason"] == "cancelled"
    ended = next(kept.events(id, types={"turn_end"}, reverse=True))
    assert ended.data["reason"] == "cancelled"


def test_an_error_of_the_agent_is_passed_on_and_recorded(proxy, tmp_path, kept):
    """The editor gets the agent's own error, and the session goes on."""
    editor = proxy()
    id = editor.new(tmp_path)
    error = editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "error"}])
    assert error == {"code": -32603, "message": "the model is gone"}
    assert [e.data["reason"] for e in kept.events(id, types={"turn_end"})] == ["failed"]
    assert editor.prompt(id, "again")["stopReason"] == "end_turn"


def test_usage_is_recorded_with_the_answer(proxy, tmp_path, kept):
    """What the agent says of tokens counts for the session."""
    editor = proxy("--usage")
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    editor.end()
    assert kept.info(id).total_tokens == 15


def test_what_an_agent_prints_is_no_frame(proxy, tmp_path):
    """Lines that are no frames are told on standard error and never reach the editor."""
    editor = proxy("--noise")
    id = editor.new(tmp_path)
    assert editor.prompt(id, "hello")["stopReason"] == "end_turn"
    assert any("this is no frame" in text for text in editor.said)


def test_secrets_of_mcp_servers_are_not_in_the_log(proxy, tmp_path, kept, journal):
    """The agent gets variables and headers as they are; the log has their names only."""
    servers = [
        {"name": "files", "command": "mcp-files", "args": [], "env": [{"name": "TOKEN", "value": "geheim-1"}]},
        {
            "type": "http",
            "name": "web",
            "url": "https://ada:geheim-2@example.org/mcp?key=geheim-3",
            "headers": [{"name": "Authorization", "value": "geheim-4"}],
        },
    ]
    editor = proxy("--load", "yes")
    id = editor.call("session/new", cwd=str(tmp_path), mcpServers=servers)["sessionId"]
    editor.prompt(id, "hello")
    assert "geheim-1" in json.dumps(journal("session/new"))
    editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=servers)
    editor.end()
    recorded = json.dumps([event.data for event in kept.events(id)])
    assert "geheim" not in recorded
    assert all(name in recorded for name in ("files", "TOKEN", "Authorization", "example.org"))


# --- getting sessions back ------------------------------------------------------------------------


@pytest.mark.req("S4-29")
@pytest.mark.req("S4-42")
@pytest.mark.req("S4-54")
@pytest.mark.parametrize("load", ["yes", "no", "fails", "late", "missing", "hangs"])
def test_a_loaded_session_goes_on_whatever_the_agent_can(proxy, tmp_path, load):
    """After a restart the editor sees all, and the model knows all of it again."""
    first = proxy("--load", load)
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    said = text_of(first.updates())
    first.end()

    waits = Waits(load_s=patience(load), quiet_s=3 if load == "late" else 0.3)
    again = proxy("--load", load, waits=waits)
    replayed, _ = again.load(id, tmp_path)
    assert text_of(replayed, "user_message_chunk") == "my name is Alice"
    assert text_of(replayed).startswith(said)
    start = len(again.seen)
    again.prompt(id, "what is my name?")
    assert "my name is Alice" in text_of(again.updates(start))
    assert not text_of(again.updates(start), "user_message_chunk")  # nothing of a late replay


@pytest.mark.req("S4-43")
def test_the_user_is_warned_when_the_agent_has_lost_the_session(proxy, tmp_path):
    """Once, after the replay; a later replay does not repeat it."""
    first = proxy("--load", "fails")
    id = first.new(tmp_path)
    first.prompt(id, "hello")
    first.end()
    again = proxy("--load", "fails")
    replayed, _ = again.load(id, tmp_path)
    assert "could not take this session up again" in replayed[-1]["content"]["text"]
    assert "No previous sessions found" in replayed[-1]["content"]["text"]
    again.end()
    third = proxy("--load", "fails")
    replayed, _ = third.load(id, tmp_path)
    assert text_of(replayed).count("could not take") == 1


@pytest.mark.parametrize("resume", ["yes", "no", "fails", "missing", "hangs"])
def test_resume_replays_nothing(proxy, tmp_path, journal, resume):
    """The editor has the history already; the agent gets it by whatever way works."""
    first = proxy("--load", "yes", "--resume", resume)
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    first.end()
    waits = Waits(resume_s=patience(resume), quiet_s=0.05)
    again = proxy("--load", "yes", "--resume", resume, waits=waits)
    updates, _ = again.load(id, tmp_path, method="session/resume")
    assert not text_of(updates)
    assert not text_of(updates, "user_message_chunk")
    again.prompt(id, "what is my name?")
    assert "my name is Alice" in text_of(again.updates())
    asked = [frame["method"] for frame in journal() if "method" in frame]
    assert ("session/load" in asked) == (resume != "yes")


def test_a_prompt_without_a_load_opens_the_session(proxy, tmp_path):
    """An editor that remembers an id and goes on with it is served."""
    first = proxy("--resume", "yes")
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    first.end()
    again = proxy("--resume", "yes")
    again.prompt(id, "what is my name?")
    assert "my name is Alice" in text_of(again.updates())


def test_another_agent_goes_on_with_the_session(proxy, tmp_path, journal):
    """An agent that never had the session is not asked to load it: it is told."""
    first = proxy("--load", "yes", "--resume", "yes")
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    first.end()
    other = proxy("--load", "yes", "--resume", "yes", "--nameless")
    other.load(id, tmp_path)
    other.prompt(id, "what is my name?")
    assert "my name is Alice" in text_of(other.updates())
    assert not journal("session/load")
    assert not journal("session/resume")


def test_what_others_said_in_a_session_reaches_its_agent(proxy, tmp_path, kept, store_place):
    """Turns that were added without the agent make its own session stale: it is told anew."""
    first = proxy("--resume", "yes")
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    first.end()
    with kept.session(id) as session:
        session.user("my dog is called Rex")
        session.assistant("Noted.")
    again = proxy("--resume", "yes")
    again.load(id, tmp_path)
    again.prompt(id, "and now?")
    assert "my dog is called Rex" in text_of(again.updates())


def test_replay_has_tool_calls_plans_and_thoughts(proxy, tmp_path):
    """Everything the editor saw live is there again, merged where it was streamed."""
    first = proxy()
    id = first.new(tmp_path)
    first.prompt(id, "think and plan")
    first.prompt(id, "use tool")
    live = first.updates()
    first.end()
    again = proxy()
    replayed, _ = again.load(id, tmp_path)
    for kind in ("agent_thought_chunk", "agent_message_chunk"):
        told = text_of(replayed, kind).split("[holdfast]")[0]
        assert told == text_of(live, kind)
    assert statuses(replayed) == statuses(live)
    assert [u["entries"] for u in replayed if u["sessionUpdate"] == "plan"] == [
        u["entries"] for u in live if u["sessionUpdate"] == "plan"
    ]


def test_a_replay_can_begin_at_a_cursor_or_with_the_tail(proxy, tmp_path):
    """``_meta.holdfast.replayFrom`` gives a part, and says whether there is more before it."""
    editor = proxy("--resume", "yes")
    id = editor.new(tmp_path)
    for word in ("one", "two", "three"):
        editor.prompt(id, word)
    meta = {"holdfast": {"replayFrom": {"type": "tail", "turns": 1}}}
    tail, answer = editor.load(id, tmp_path, _meta=meta)
    assert text_of(tail, "user_message_chunk") == "three"
    told = answer["_meta"]["holdfast"]
    assert told["earlier"] is True
    meta = {"holdfast": {"replayFrom": {"type": "seq", "seq": 0, "before": told["first"]}}}
    head, answer = editor.load(id, tmp_path, _meta=meta)
    assert text_of(head, "user_message_chunk") == "onetwo"
    assert answer["_meta"]["holdfast"]["earlier"] is False
    nothing, _ = editor.load(id, tmp_path, _meta={"holdfast": {"replayFrom": {"type": "none"}}})
    assert nothing == []


@pytest.mark.parametrize(
    "wish", [7, {"type": "half"}, {"type": "seq"}, {"type": "tail", "turns": -1}, {"type": "seq", "seq": True}]
)
def test_a_cursor_that_is_none_is_refused(proxy, tmp_path, wish):
    """With a clear error, and the session stays usable."""
    editor = proxy()
    id = editor.new(tmp_path)
    error = editor.fail(
        "session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[], _meta={"holdfast": {"replayFrom": wish}}
    )
    assert error["code"] == -32602
    assert editor.prompt(id, "hello")["stopReason"] == "end_turn"


def test_live_updates_wait_for_the_replay_of_a_running_turn(proxy, tmp_path):
    """A session that is loaded while its turn runs: first the past, then what comes, none twice."""
    editor = proxy("--flood", "3000")
    id = editor.new(tmp_path)
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "go"}])
    editor.until(lambda frame: frame.get("method") == "session/update")
    start = len(editor.seen)
    load = editor.ask("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    done = set()
    while {number, load} - done:
        done.add(editor.until(lambda frame: "method" not in frame)["id"])
    updates = editor.updates(start)
    asked = next(i for i, u in enumerate(updates) if u["sessionUpdate"] == "user_message_chunk")
    flood = "".join(f" {number}" for number in range(3000))
    assert text_of(updates[asked:]).count(flood) == 1


def test_modes_that_the_user_chose_are_set_again(proxy, tmp_path, journal):
    """An agent that starts anew is told the settings of the session."""
    first = proxy("--resume", "yes")
    id = first.new(tmp_path)
    first.fail("session/set_mode", sessionId=id, modeId="plan")  # this agent has none
    first.end()
    assert [frame["params"]["modeId"] for frame in journal("session/set_mode")] == ["plan"]


# --- list, fork, close, delete --------------------------------------------------------------------


def test_sessions_are_listed_by_their_directory(proxy, tmp_path):
    """Newest first, with title and time; another directory's are left out."""
    editor = proxy()
    here, there = tmp_path / "here", tmp_path / "there"
    first, second = editor.new(here), editor.new(here)
    other = editor.new(there)
    for id in (first, second, other):
        editor.prompt(id, f"about {id}")
    found = editor.call("session/list", cwd=str(here))["sessions"]
    assert [one["sessionId"] for one in found] == [second, first]
    assert found[0]["cwd"] == str(here)
    assert found[0]["title"] == f"about {second}"
    assert found[0]["updatedAt"].endswith("Z")
    everywhere = editor.call("session/list")["sessions"]
    assert {one["sessionId"] for one in everywhere} == {first, second, other}
    assert editor.fail("session/list", cursor="no cursor")["code"] == -32602


@pytest.mark.parametrize("fork", ["yes", "no", "fails", "hangs"])
def test_a_fork_goes_its_own_way(proxy, tmp_path, kept, fork):
    """Both know the past; what is said in one is not known in the other."""
    waits = Waits(load_s=patience(fork), quiet_s=0.05)
    editor = proxy("--fork", fork, "--resume", "yes", waits=waits)
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    branch = editor.call("session/fork", sessionId=id, cwd=str(tmp_path), mcpServers=[])["sessionId"]
    assert branch != id
    editor.prompt(branch, "my dog is Rex")
    start = len(editor.seen)
    editor.prompt(branch, "who are we?")
    known = text_of(editor.updates(start))
    assert "Alice" in known
    assert "Rex" in known
    start = len(editor.seen)
    editor.prompt(id, "who are we?")
    assert "Rex" not in text_of(editor.updates(start))
    assert kept.state(branch).parent.session == id


def test_a_fork_at_an_earlier_event_knows_nothing_later(proxy, tmp_path, kept):
    """``_meta.holdfast.at`` names the event after which the branch begins."""
    editor = proxy("--fork", "yes", "--resume", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    at = kept.state(id).seq
    editor.prompt(id, "my dog is Rex")
    meta = {"holdfast": {"at": at}}
    branch = editor.call("session/fork", sessionId=id, cwd=str(tmp_path), mcpServers=[], _meta=meta)["sessionId"]
    start = len(editor.seen)
    editor.prompt(branch, "who are we?")
    known = text_of(editor.updates(start))
    assert "Alice" in known
    assert "Rex" not in known


@pytest.mark.parametrize("can", ["yes", "no", "fails"])
def test_a_closed_session_can_be_loaded_again(proxy, tmp_path, journal, can):
    """Closing frees it here and at the agent, if that can."""
    editor = proxy("--close", can, "--resume", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    assert editor.call("session/close", sessionId=id) == {}
    assert bool(journal("session/close")) == (can != "no")
    assert editor.call("session/close", sessionId=id) == {}
    editor.load(id, tmp_path)
    editor.prompt(id, "who am I?")
    assert "Alice" in text_of(editor.updates())


def test_a_deleted_session_is_gone_and_can_be_undone(proxy, tmp_path, kept):
    """It is in no list and cannot be loaded; a person can bring it back."""
    editor = proxy("--delete", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    assert editor.call("session/delete", sessionId=id) == {}
    assert editor.call("session/delete", sessionId=id) == {}
    assert editor.call("session/list")["sessions"] == []
    load = editor.fail("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    assert load["code"] == -32002
    kept.undelete(id)
    replayed, _ = editor.load(id, tmp_path)
    assert text_of(replayed, "user_message_chunk") == "hello"


def test_a_session_that_another_process_has_open_is_refused(proxy, tmp_path, proxy_process):
    """The second editor is told who has it, and keeps working."""
    first = proxy_process()
    id = first.new(tmp_path)
    first.prompt(id, "hello")
    second = proxy()
    error = second.fail("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    assert str(first.process.pid) in error["message"]
    assert second.new(tmp_path)


# --- hostile input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{this is no json\n", -32700),
        (b"[1,2]\n", -32600),
        (b'"text"\n', -32600),
        (b"{}\n", -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":7}\n', -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/load","params":[]}\n', -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/load","params":{}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/new","params":{}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/load","params":{"sessionId":"../x"}}\n', -32002),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"no"}}\n', -32002),
        (b'{"jsonrpc":"2.0","id":5,"method":"session/fork","params":{"sessionId":"no"}}\n', -32002),
        (b'{"jsonrpc":"2.0","id":5,"method":"no/such/method","params":{}}\n', -32601),
        (b"[" * 100_000 + b"\n", -32700),
    ],
)
def test_a_frame_that_is_wrong_gets_the_error_of_json_rpc(proxy, tmp_path, line, code):
    """With the code that the standard names, and the next request is served."""
    editor = proxy()
    editor.send(line)
    answer = editor.until(lambda frame: "error" in frame)
    assert answer["error"]["code"] == code
    assert editor.new(tmp_path)


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nobody"}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": [1]},
        {"jsonrpc": "2.0", "method": "session/cancel"},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "nobody"}},
        {"jsonrpc": "2.0", "method": "_anything", "params": {}},
        {"jsonrpc": "2.0", "id": 999, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "?"}},
    ],
)
def test_notifications_and_answers_for_nobody_are_not_answered(proxy, tmp_path, frame):
    """JSON-RPC: silence; and nothing breaks."""
    editor = proxy()
    start = len(editor.seen)
    editor.send(frame)
    assert editor.new(tmp_path)
    assert len(editor.seen) == start + 1


def test_an_id_that_is_in_use_is_refused(proxy, tmp_path):
    """The first request goes on; the second is told."""
    editor = proxy()
    id = editor.new(tmp_path)
    prompt = {"sessionId": id, "prompt": [{"type": "text", "text": "wait"}]}
    frame = {"jsonrpc": "2.0", "id": "twice", "method": "session/prompt", "params": prompt}
    editor.send(frame)
    editor.until(lambda frame: frame.get("method") == "session/update")
    editor.send(frame)
    assert editor.until(lambda frame: frame.get("id") == "twice")["error"]["code"] == -32600
    editor.tell("session/cancel", sessionId=id)
    assert editor.until(lambda f: f.get("id") == "twice")["result"]["stopReason"] == "cancelled"


@pytest.mark.slow
def test_a_line_of_50_megabytes_passes_and_is_kept(proxy, tmp_path, kept):
    """As a prompt: the agent gets it whole, the log has it whole."""
    editor = proxy(store=False)
    id = editor.new(tmp_path)
    text = "word " * 10_000_000
    assert editor.prompt(id, text)["stopReason"] == "end_turn"
    editor.end()
    assert kept.recover(id, "neutral").messages[0]["content"] == text


def test_a_line_over_the_limit_is_refused_and_the_next_is_served(tmp_path, start, store_place, agent_command):
    """However long it is, it is not kept in memory."""
    import holdfast
    from holdfast.apps.acp.proxy.server import Proxy
    from holdfast.apps.wire.frames import Splitter
    from holdfast.apps.wire.pipes import AgentProcess

    async def serve(pipe):
        pipe._splitter = Splitter(1_000_000)
        with holdfast.open(store_place) as hf:
            command = agent_command()
            await Proxy(hf, pipe, lambda: AgentProcess.start(command), command=command).run()

    editor = start(serve)
    editor.initialize()
    sender = threading.Thread(target=editor.send, args=(b'{"a":"' + b"x" * 5_000_000 + b'"}\n',))
    sender.start()
    assert editor.until(lambda frame: "error" in frame)["error"]["code"] == -32600
    sender.join()
    assert editor.new(tmp_path)


def test_text_that_no_log_takes_passes_and_is_kept_as_far_as_it_goes(proxy, tmp_path, kept):
    """NUL and half a surrogate pair reach the agent; the log has a stand-in for them."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.prompt(id, "a\0b\ud800c")
    assert "c'" in text_of(editor.updates())
    assert kept.recover(id, "neutral").messages[0]["content"] == "a\ufffdb\ufffdc"


def test_an_editor_hears_nothing_of_a_session_before_its_id(proxy, tmp_path):
    """Whatever the agent tells at once, the answer that names the session comes first."""
    editor = proxy("--commands", "--fork", "no")
    for _ in range(5):
        id = editor.new(tmp_path)
        editor.until(partial(_is_about, id))
        branch = editor.call("session/fork", sessionId=id, cwd=str(tmp_path), mcpServers=[])
        branch = branch["sessionId"]
        editor.until(partial(_is_about, branch))
    known = set()
    for frame in editor.seen:
        known.add(frame.get("result", {}).get("sessionId"))
        if "method" in frame:
            assert frame["params"]["sessionId"] in known


def _is_about(id, frame):
    return frame.get("params", {}).get("sessionId") == id
