"""What real agents do that no specification foresees, shown with the scripted one."""

from __future__ import annotations

import os
import signal
import time

import pytest

from holdfast.apps.acp.handover import ReplayedWords, missing_end
from holdfast.apps.acp.recording.recorder import Notes

PATIENCE_S = 120


def ends(pid):
    """Whether a process that is nobody's child here is gone within a while."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("deaf", [(), ("--deaf",)], ids=["orderly", "deaf"])
def test_an_agent_does_not_outlive_the_proxy(proxy_process, tmp_path, journal, deaf):
    """Not even one that goes on when its input ends and when it is asked to end."""
    editor = proxy_process(*deaf)
    editor.prompt(editor.new(tmp_path), "hello")
    pid = int(journal("session/prompt")[0]["params"]["sessionId"].split("-")[1])
    editor.process.send_signal(signal.SIGKILL)
    assert ends(pid)


def test_a_deaf_agent_is_ended_with_the_connection(proxy_process, tmp_path, journal):
    """The end of the input ends all, by force where nothing else does."""
    editor = proxy_process("--deaf")
    editor.prompt(editor.new(tmp_path), "hello")
    pid = int(journal("session/prompt")[0]["params"]["sessionId"].split("-")[1])
    assert editor.end() == 0
    assert ends(pid)


def talk(proxy, tmp_path, *words, load="yes"):
    """A conversation with an agent that can load, which then ends."""
    editor = proxy("--load", load)
    id = editor.new(tmp_path)
    for each in words:
        editor.prompt(id, each)
    editor.end()
    return id


def told(journal):
    """What the agent was told before the newest prompt."""
    return [block["text"] for block in journal("session/prompt")[-1]["params"]["prompt"][:-1]]


@pytest.mark.parametrize("load", ["yes", "late"])
@pytest.mark.parametrize("lost", [(1, "Assistant: You"), (2, "User: I like figs")])
def test_an_agent_that_lost_the_end_is_told_it(proxy, tmp_path, journal, load, lost):
    """One that was killed before it had written: it gets what its replay lacks, and no more."""
    forget, first = lost
    id = talk(proxy, tmp_path, "my name is Alice", "I like figs", load=load)
    editor = proxy("--load", load, "--forget", forget)
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    (note,) = told(journal)
    assert "lacks its end" in note
    assert note.partition("<conversation>\n")[2].startswith(first)
    assert "figs" in note
    assert "User: my name is Alice" not in note
    assert any("lost the end" in u["content"]["text"] for u in editor.updates() if "content" in u)


def test_an_agent_that_loads_only_words_of_its_own_is_told_everything(proxy, tmp_path, journal):
    """A replay of something is no proof that the conversation is there."""
    id = talk(proxy, tmp_path, "my name is Alice", "I like figs")
    editor = proxy("--load", "yes", "--forget", 9, "--context")
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    (note,) = told(journal)
    assert "knows nothing of it" in note
    assert "User: my name is Alice" in note
    assert "User: I like figs" in note


def heard(*updates):
    """A replay of these updates."""
    found = ReplayedWords()
    for kind, content in updates:
        found.take({"sessionUpdate": kind, "content": {"type": "text", "text": content}})
    return found


def said(role, text):
    """A message."""
    return {"role": role, "content": [{"type": "text", "text": text}]}


def test_the_same_words_again_are_missed_too():
    """What was said twice and is replayed once is missing once."""
    once = [said("user", "yes"), said("assistant", "fine")]
    replay = [("user_message_chunk", "yes"), ("agent_message_chunk", "fi"), ("x", "fine")]
    assert missing_end(once * 2, heard(*replay, ("agent_message_chunk", "ne"))) == once


def test_calls_count_by_their_ids():
    """A call that the replay has, but not its end, has lost its result."""
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
    messages = [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": None},
    ]
    found = ReplayedWords()
    found.take({"sessionUpdate": "tool_call", "toolCallId": "c1", "status": "pending"})
    assert missing_end(messages, found) == messages[1:]
    found.take({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"})
    assert missing_end(messages, found) == messages[2:]


def test_a_replay_that_is_too_long_to_keep_is_believed(monkeypatch):
    """Nothing is told twice for want of memory."""
    monkeypatch.setattr("holdfast.apps.acp.handover._CHARS_MAX", 10)
    replay = heard(("user_message_chunk", "a long long text"), ("user_message_chunk", "b"))
    assert not missing_end([said("user", "other")], replay)


def test_the_words_of_a_turn_that_was_cut_off_are_told_once(proxy, proxy_process, tmp_path, journal):
    """With the news that it was; its replay lacks them, as all agents' do."""
    editor = proxy_process("--load", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "wait"}])
    editor.until(lambda frame: "Waiting" in str(frame))
    editor.kill()
    editor = proxy("--load", "yes")
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    (note,) = told(journal)
    assert "was cut off" in note
    assert "Waiting." in note


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_killed_agent_has_to_show_what_it_has(proxy, proxy_process, tmp_path, journal, closed):
    """It may resume and still lack the end: its load comes first then, and is looked at."""
    editor = proxy_process("--load", "yes", "--resume", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    if closed:
        editor.end()
    else:
        editor.kill()
    editor = proxy("--load", "yes", "--resume", "yes", "--forget", 0 if closed else 1)
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    assert [len(journal(f"session/{way}")) for way in ("load", "resume")] == ([0, 1] if closed else [1, 0])
    assert len(told(journal)) == (0 if closed else 1)


@pytest.mark.parametrize("load", ["yes", "late"])
def test_an_agent_that_has_everything_is_told_nothing(proxy, tmp_path, journal, load):
    """Words of its own around the replay, and another order of it, are no loss."""
    id = talk(proxy, tmp_path, "use tool", "think", "plan", load=load)
    editor = proxy("--load", load, "--context")
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    assert told(journal) == []


def events_of(*updates):
    """What is recorded of updates about a tool call."""
    notes, found = Notes("agent", next_seq=lambda: 0), []
    for number, members in enumerate(updates):
        kind = "tool_call_update" if number else "tool_call"
        update = {"sessionUpdate": kind, "toolCallId": "c1", **members}
        params = {"sessionId": "s", "update": update}
        found += notes.agent({"jsonrpc": "2.0", "method": "session/update", "params": params}).events
    return {type: data for type, data in found if type != "frame"}


def test_a_call_of_which_only_its_places_are_told_is_recorded_with_them():
    """Gemini sends neither parameters nor results: the paths are what can be known of a call."""
    places = {"kind": "read", "locations": [{"path": "/a.txt", "line": 1}, {"path": ""}, 7]}
    found = events_of({"status": "in_progress", **places}, {"status": "completed", "content": []})
    assert found["tool_call"]["params"] == {"paths": ["/a.txt"]}
    assert found["tool_result"]["result"] == ""
    assert events_of({"status": "in_progress", "locations": {}})["tool_call"]["params"] == {}


def test_what_a_command_printed_beside_the_protocol_is_its_result():
    """Codex sends the output piece by piece as an extension, and the exit code as the result."""
    found = events_of(
        {"status": "in_progress", "name": "exec_command", "kind": "read", "rawInput": {"cmd": "ls"}},
        {"_meta": {"terminal_output_delta": {"data": "a.txt\n", "terminal_id": "c1"}}},
        {"_meta": {"terminal_output_delta": {"data": "b.txt\n", "terminal_id": "c1"}}},
        {"_meta": {"terminal_output": "no object"}, "status": "completed", "rawOutput": {"exit": 0}},
    )
    assert found["tool_call"]["tool"] == "exec_command"
    assert found["tool_result"]["result"] == "a.txt\nb.txt\n"


# --- frames ---------------------------------------------------------------------------------------


def test_what_an_agent_says_before_it_answers_a_new_session_is_shown_and_kept(proxy, tmp_path, kept):
    """Under our id, after the answer that names it: an editor knows no such session before."""
    editor = proxy("--commands")
    id = editor.new(tmp_path)
    shown = editor.until(lambda frame: frame.get("method") == "session/update")
    assert shown["params"]["sessionId"] == id
    editor.end()
    frames = [event.data["frame"] for event in kept.events(id, types={"frame"})]
    assert [f["params"]["update"]["sessionUpdate"] for f in frames] == ["available_commands_update"]


def test_extensions_pass_as_they_are(proxy, tmp_path, journal):
    """Methods that begin with _ and members of _meta; ours are not for the agent."""
    editor = proxy()
    meta = {"systemPrompt": "be short", "holdfast": {"ours": 1}}
    id = editor.new(tmp_path, _meta=meta)
    assert journal("session/new")[-1]["params"]["_meta"] == {"systemPrompt": "be short"}
    assert editor.fail("_x/ask", question=1)["code"] == -32601
    assert journal("_x/ask")[-1]["params"] == {"question": 1}
    text = {"type": "text", "text": "hi", "_meta": {"y": 2}}
    editor.call("session/prompt", sessionId=id, prompt=[text], _meta={"z": 3})
    params = journal("session/prompt")[-1]["params"]
    assert (params["prompt"], params["_meta"]) == ([text], {"z": 3})


def test_an_agent_that_wants_a_login_gets_it_again_after_it_died(proxy, tmp_path, journal):
    """Its refusal reaches the editor; a login that worked is repeated before sessions are."""
    once = ("--die", "stream", "--die-once", str(tmp_path / "died"))
    editor = proxy("--login", "key", "--resume", "yes", *once)
    assert editor.fail("session/new", cwd=str(tmp_path), mcpServers=[])["code"] == -32000
    assert editor.fail("authenticate", methodId="other")["code"] == -32602
    editor.call("authenticate", methodId="key")
    id = editor.new(tmp_path)
    editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "hello"}])
    assert editor.prompt(id, "go on")["stopReason"] == "end_turn"
    assert [f["params"]["methodId"] for f in journal("authenticate")] == ["other", "key", "key"]


def test_a_load_that_needs_a_login_can_be_repeated_after_it(proxy, tmp_path, journal):
    """A new proxy knows no login: the session is not given up for lost because of that."""
    editor = proxy("--login", "key", "--resume", "yes")
    editor.call("authenticate", methodId="key")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    editor.end()
    editor = proxy("--login", "key", "--resume", "yes")
    assert editor.fail("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])["code"] == -32000
    editor.call("authenticate", methodId="key")
    editor.load(id, tmp_path)
    editor.prompt(id, "go on")
    assert told(journal) == []
    assert len(journal("session/new")) == 1


def test_a_load_that_is_answered_with_null_is_one(proxy, tmp_path, journal):
    """The protocol allows it; the editor gets an object all the same."""
    id = talk(proxy, tmp_path, "my name is Alice")
    editor = proxy("--load", "yes", "--terse")
    _, answer = editor.load(id, tmp_path)
    assert set(answer) == {"_meta"}
    editor.prompt(id, "go on")
    assert told(journal) == []
    assert len(journal("session/new")) == 1


def test_ids_of_requests_can_be_texts(proxy, tmp_path):
    """Each answer has the id of its request, as it was, and 1 is not "1"."""
    editor = proxy()
    for id in ("9f1c", "1", "", 2.5, -7):
        editor.send({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}})
        assert editor.wait(id)["result"] == {"sessions": []}
    params = {"cwd": str(tmp_path), "mcpServers": []}
    editor.send({"jsonrpc": "2.0", "id": "new", "method": "session/new", "params": params})
    session = editor.wait("new")["result"]["sessionId"]
    block = {"type": "text", "text": "use tool"}
    params = {"sessionId": session, "prompt": [block]}
    editor.send({"jsonrpc": "2.0", "id": "turn", "method": "session/prompt", "params": params})
    assert editor.wait("turn")["result"]["stopReason"] == "end_turn"
