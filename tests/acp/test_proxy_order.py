"""What passes the proxy at the same time: nothing overtakes, nothing waits for ever."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from holdfast.apps.acp.handover import Waits
from holdfast.apps.acp.link import AgentLink
from holdfast.apps.wire.frames import CANCELLED, INVALID_PARAMS
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.session import Session

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


def frames(*given):
    """Several frames at once, as an editor sends them that is quicker than we are."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in given)


def prompt_and_cancel(id, number=77):
    """A prompt, and the user's change of mind."""
    params = {"sessionId": id, "prompt": [{"type": "text", "text": "wait"}]}
    return frames(
        {"id": number, "method": "session/prompt", "params": params},
        {"method": "session/cancel", "params": {"sessionId": id}},
    )


def test_a_cancel_never_overtakes_its_prompt(proxy, journal, tmp_path):
    """A prompt and its cancel that come together reach the agent in that order."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.send(prompt_and_cancel(id))
    assert editor.wait(77)["result"] == {"stopReason": "cancelled"}
    assert [frame["method"] for frame in journal()][-2:] == ["session/prompt", "session/cancel"]


def test_a_cancel_waits_for_a_session_that_is_being_opened(proxy, tmp_path):
    """A prompt to a session that has to be opened first can be cancelled at once."""
    editor = proxy("--load", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    editor.end()
    again = proxy("--load", "yes")
    again.send(prompt_and_cancel(id))
    assert again.wait(77)["result"] == {"stopReason": "cancelled"}


def test_a_request_that_waits_for_its_session_can_be_cancelled(proxy, journal, tmp_path):
    """It is answered at once, and neither recorded nor given to the agent; the next one is."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.end()
    again = proxy("--new", "hangs", waits=Waits(load_s=1.0))
    params = {"sessionId": id, "prompt": [{"type": "text", "text": "never mind"}]}
    again.send(
        frames(
            {"id": 77, "method": "session/prompt", "params": params},
            {"method": "$/cancel_request", "params": {"requestId": 77}},
        )
    )
    assert again.wait(77)["error"]["code"] == CANCELLED
    again.end()
    third = proxy()
    assert third.load(id, tmp_path)[0] == []
    assert third.prompt(id, "this one")["stopReason"] == "end_turn"
    assert [frame["params"]["prompt"][-1]["text"] for frame in journal("session/prompt")] == ["this one"]


@pytest.mark.parametrize("method", ["new", "load", "resume", "fork"])
@pytest.mark.parametrize("cwd", ["here", "./here", "", None, 7, "/a\0b"])
def test_a_working_directory_is_an_absolute_path(proxy, journal, tmp_path, method, cwd):
    """What is relative means another place to each side: the protocol forbids it."""
    editor = proxy()
    id = editor.new(tmp_path)
    error = editor.fail(f"session/{method}", sessionId=id, cwd=cwd, mcpServers=[])
    assert error["code"] == INVALID_PARAMS
    assert len(journal("session/new")) == 1


def test_a_cancel_for_an_unknown_session_is_nothing(proxy, journal, tmp_path):
    """Notifications about sessions that nobody opened are not passed on."""
    editor = proxy()
    editor.tell("session/cancel", sessionId="nobody")
    editor.new(tmp_path)
    assert not journal("session/cancel")


def test_an_agent_that_makes_no_session_fails_the_prompt(proxy, tmp_path):
    """A prompt is answered, and the next one too, if its agent never gives a session."""
    editor = proxy(store=False)
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    editor.end()
    again = proxy("--new", "hangs", store=False, waits=Waits(load_s=0.2))
    for _ in range(2):
        blocks = [{"type": "text", "text": "still there?"}]
        error = again.fail("session/prompt", sessionId=id, prompt=blocks)
        assert "no session within 0.2 s" in error["message"]


def test_meta_that_is_no_object_is_passed_over(proxy, tmp_path):
    """A load with odd _meta is served, and so are the prompts after it."""
    editor = proxy()
    id = editor.new(tmp_path)
    editor.call("session/close", sessionId=id)
    editor.load(id, tmp_path, _meta="odd")
    assert editor.prompt(id, "hello")["stopReason"] == "end_turn"


def test_an_agent_may_use_its_ids_again(proxy, tmp_path):
    """An agent that counts its sessions from one at each start does not confuse two of ours."""
    editor = proxy("--counts", store=False)
    old = editor.new(tmp_path)
    editor.prompt(old, "in the old one")
    editor.end()
    again = proxy("--counts", store=False)
    young = again.new(tmp_path)
    again.load(old, tmp_path)
    start = len(again.seen)
    again.prompt(young, "in the young one")
    told = [f["params"] for f in again.seen[start:] if f.get("method") == "session/update"]
    assert told
    assert {params["sessionId"] for params in told} == {young}


def test_an_agent_that_asks_for_a_stranger_is_answered(proxy, tmp_path):
    """A request about a session that nobody knows is answered with an error, not with silence."""
    editor = proxy()
    editor.prompt(editor.new(tmp_path), "stranger")
    assert "there is no session" in str(editor.updates())


def test_a_branch_that_the_agent_refuses_is_not_left_behind(proxy, tmp_path):
    """A fork that failed leaves no session in the list."""
    full = tmp_path / "full"
    editor = proxy("--full", full)
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    full.touch()
    error = editor.fail("session/fork", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    assert error["message"] == "no more sessions"
    assert [one["sessionId"] for one in editor.call("session/list")["sessions"]] == [id]


def test_an_agent_is_dead_though_its_child_holds_the_pipe(proxy, tmp_path):
    """What an agent left running with its output does not hide that the agent is gone."""
    editor = proxy("--die", "stream", "--survivor")
    id = editor.new(tmp_path)
    blocks = [{"type": "text", "text": "hello"}]
    error = editor.fail("session/prompt", sessionId=id, prompt=blocks)
    assert "exit code 9" in error["message"]


def test_a_conversation_without_turns_is_told_too(proxy, kept, tmp_path):
    """A session that a program recorded message by message has a past that the agent needs."""
    with kept.session() as session:
        session.append("user", {"role": "user", "content": "the word is heron"})
        session.append("assistant", {"role": "assistant", "content": "I keep it"})
    editor = proxy()
    editor.load(session.id, tmp_path)
    start = len(editor.seen)
    editor.prompt(session.id, "which word?")
    assert "heron" in str(editor.updates(start))


def test_an_editor_that_listens_no_more_is_gone(agent_command, store_place, tmp_path):
    """The proxy ends when nobody reads it, though its input stays open, and says nothing of it."""
    command = [HOLDFAST, "--store", str(store_place), "acp", "proxy", "--"]
    command += agent_command("--flood", "5000", store=False)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:

        def ask(method, **params):
            process.stdin.write(frames({"id": 1, "method": method, "params": params}))
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        ask("initialize", protocolVersion=1)
        made = ask("session/new", cwd=str(tmp_path), mcpServers=[])["result"]
        ask("session/prompt", **made, prompt=[{"type": "text", "text": "hello"}])
        process.stdout.close()
        assert process.wait(120) == 0
        assert process.stderr.read() == b""


@pytest.mark.req("B-34")
def test_what_is_recorded_but_not_shown_yet_is_not_told_twice(proxy, tmp_path, monkeypatch):
    """A load while an update waits for the medium tells it once."""
    reached, free = threading.Event(), threading.Event()
    barrier = Session.abarrier

    async def slow(self):
        await barrier(self)
        while self.live_state.pending_calls and not free.is_set():
            reached.set()
            await asyncio.sleep(0.01)

    monkeypatch.setattr(Session, "abarrier", slow)
    editor = proxy()
    id = editor.new(tmp_path)
    turn = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "use tool"}])
    assert reached.wait(120)
    load = editor.ask("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    editor.call("session/list")  # what came before it is under way
    free.set()
    for number in (load, turn):
        assert "result" in _answer(editor, number)
    kinds = [update["sessionUpdate"] for update in editor.updates()]
    assert kinds[kinds.index("user_message_chunk") :].count("tool_call") == 1


def _answer(editor, number):
    """The answer to a request, whether it came already or not."""
    came = [f for f in editor.seen if f.get("id") == number and "method" not in f]
    return came[0] if came else editor.wait(number)


def _link(command):
    """An agent that nobody listens to."""

    async def nothing(*_):
        pass

    return AgentLink(
        partial(AgentProcess.start, command),
        on_frame=lambda _: None,
        on_batch=nothing,
        on_death=nothing,
        on_noise=lambda _: None,
    )


async def test_nobody_speaks_to_an_agent_before_it_was_greeted(agent_command):
    """Who needs the agent while it is started waits until it has answered."""
    link = _link(agent_command())
    greeting = asyncio.ensure_future(link.greet({"protocolVersion": 1}))
    try:
        while link._process is None:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        assert not link.alive
        await link.ready()
        assert link.hello["agentInfo"]["name"] == "scripted"
    finally:
        await greeting
        await link.end()


async def test_an_agent_whose_start_was_given_up_does_not_stay(agent_command):
    """Whoever starts an agent and is cancelled leaves none behind that was never greeted."""
    link = _link(agent_command())
    greeting = asyncio.ensure_future(link.greet({"protocolVersion": 1}))
    while link._process is None:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    process = link._process
    greeting.cancel()
    await asyncio.gather(greeting, return_exceptions=True)
    assert process.returncode is not None
    await link.ready()
    assert link.alive
    await link.end()
