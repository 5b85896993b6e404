"""What the proxy promises when something dies: the agent, the proxy, the store."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time

import pytest

import holdfast
from holdfast.apps.acp.link import Breaker
from holdfast.apps.acp.proxy.server import Proxy
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.storage import FileStore
from holdfast.testing import FaultyDisk


def text_of(updates, kind="agent_message_chunk"):
    """The text of all chunks of one kind, joined."""
    return "".join(u["content"].get("text", "") for u in updates if u["sessionUpdate"] == kind)


def die_once(tmp_path, phase):
    """The arguments of an agent that dies in a phase, once."""
    return ("--die", phase, "--die-once", str(tmp_path / "died"))


# --- the agent dies -------------------------------------------------------------------------------


@pytest.mark.req("S4-3")
@pytest.mark.parametrize("resume", ["yes", "no"])
@pytest.mark.parametrize("phase", ["prompt", "stream", "permission", "tool"])
def test_an_agent_that_dies_in_mid_turn_comes_back(proxy, tmp_path, kept, phase, resume):
    """The editor stays connected, hears of it, and the next prompt is answered with the past."""
    editor = proxy("--resume", resume, *die_once(tmp_path, "new"))
    first = editor.fail("session/new", cwd=str(tmp_path), mcpServers=[])
    assert "ended" in first["message"]
    editor.end()
    (tmp_path / "died").unlink()

    editor = proxy("--resume", resume, *die_once(tmp_path, phase))
    id = editor.new(tmp_path)
    text = "use tool" if phase in ("permission", "tool") else "my name is Alice"
    error = editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": text}])
    assert "ended with exit code 9" in error["message"]
    start = len(editor.seen)
    assert editor.prompt(id, "go on")["stopReason"] == "end_turn"
    heard = text_of(editor.updates(start))
    assert "was cut off" in heard or text in heard
    reasons = [event.data["reason"] for event in kept.events(id, types={"turn_end"})]
    assert reasons == ["interrupted", "completed"]


def test_open_tool_calls_of_a_dead_agent_end_as_failed(proxy, tmp_path):
    """Live and in every later replay: interrupted, outcome unknown."""
    editor = proxy("--resume", "yes", *die_once(tmp_path, "tool"))
    id = editor.new(tmp_path)
    editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "use tool"}])
    live = [u for u in editor.updates() if u["sessionUpdate"] == "tool_call_update"][-1]
    assert live["status"] == "failed"
    assert live["content"][0]["content"]["text"] == "interrupted, outcome unknown"
    replayed, _ = editor.load(id, tmp_path)
    last = [u for u in replayed if u.get("toolCallId") == live["toolCallId"]][-1]
    assert last["status"] == "failed"
    assert last["content"][0]["content"]["text"] == "interrupted, outcome unknown"


def test_the_agent_is_told_what_had_begun(proxy, tmp_path, journal):
    """The next prompt names the call whose outcome nobody knows."""
    editor = proxy("--resume", "yes", *die_once(tmp_path, "tool"))
    id = editor.new(tmp_path)
    editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "use tool"}])
    editor.prompt(id, "go on")
    told, asked = journal("session/prompt")[-1]["params"]["prompt"]
    assert f"unknown: execute: ls in {tmp_path}." in told["text"]
    assert asked["text"] == "go on"


def test_all_sessions_of_a_dead_agent_come_back(proxy, tmp_path):
    """Not only the one that it died in."""
    editor = proxy("--resume", "yes", *die_once(tmp_path, "stream"))
    quiet, busy = editor.new(tmp_path), editor.new(tmp_path)
    (tmp_path / "died").touch()
    editor.prompt(quiet, "my name is Alice")
    (tmp_path / "died").unlink()
    editor.fail("session/prompt", sessionId=busy, prompt=[{"type": "text", "text": "hello"}])
    start = len(editor.seen)
    editor.prompt(quiet, "who am I?")
    assert "Alice" in text_of(editor.updates(start))


@pytest.mark.req("S4-27")
def test_an_agent_that_dies_again_and_again_is_left_alone_for_a_while(proxy, tmp_path):
    """After three failures the circuit is open: a clear error at once, and the editor lives."""
    editor = proxy("--die", "prompt", "--resume", "yes")
    id = editor.new(tmp_path)
    messages = [
        editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "x"}])["message"] for _ in range(4)
    ]
    assert "failed 3 times in a row; it is tried again in" in messages[-1]
    assert editor.call("session/list")["sessions"][0]["sessionId"] == id


def test_an_agent_that_is_not_there_is_told(start, store_place):
    """The error names the command; the proxy goes on serving what it can."""

    async def serve(pipe):
        with holdfast.open(store_place) as hf:
            command = ["no-such-agent-anywhere"]
            await Proxy(hf, pipe, lambda: AgentProcess.start(command), command=command).run()

    editor = start(serve)
    error = editor.fail("initialize", protocolVersion=1)
    assert "no-such-agent-anywhere" in error["message"]
    assert editor.call("session/list") == {"sessions": []}


def test_the_circuit_opens_after_three_failures_and_closes_after_the_rest():
    """One attempt after the rest; success forgets all."""
    now = [100.0]
    breaker = Breaker(clock=lambda: now[0])
    for _ in range(2):
        breaker.failed()
    assert breaker.wait_s == 0
    assert breaker.pause_s > 0
    breaker.failed()
    assert breaker.wait_s == 30
    now[0] += 29
    assert breaker.wait_s == 1
    now[0] += 1
    assert breaker.wait_s == 0
    breaker.failed()
    assert breaker.wait_s == 30
    breaker.worked()
    assert breaker.wait_s == breaker.pause_s == breaker.failures == 0


# --- the proxy dies -------------------------------------------------------------------------------


@pytest.mark.req("S4-2")
@pytest.mark.req("S4-53")
def test_every_word_that_the_editor_had_received_is_in_the_replay(proxy_process, tmp_path):
    """Killed with -9 while streaming, six times at moments of their own."""
    for moment in range(6):
        # More than pipes and buffers hold: the turn cannot have ended before the kill.
        editor = proxy_process("--flood", "50000", "--resume", "yes")
        id = editor.new(tmp_path)
        reached = threading.Event()
        target = 1 + moment * 400

        def count(frame, editor=editor, reached=reached, target=target):
            if len(editor.seen) > target:
                reached.set()

        editor.on_frame = count
        editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "go"}])
        assert reached.wait(120)
        editor.kill()
        editor.clean_up()
        editor._reader.join(10)
        received = text_of(editor.updates())
        assert received

        again = proxy_process("--resume", "yes")
        replayed, _ = again.load(id, tmp_path)
        assert text_of(replayed).startswith(received)
        assert again.prompt(id, "go on")["stopReason"] == "end_turn"
        assert "The user had seen this much" in text_of(again.updates())
        assert again.end() == 0


def test_a_turn_that_the_proxys_death_cut_off_is_told_to_the_agent(proxy_process, tmp_path, journal):
    """Its open call ends as failed in the replay, and the agent knows that it did not run."""
    editor = proxy_process("--resume", "yes")
    id = editor.new(tmp_path)
    editor.option = None
    editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "use tool"}])
    editor.until(lambda frame: frame.get("method") == "session/request_permission")
    editor.kill()
    again = proxy_process("--resume", "yes")
    replayed, _ = again.load(id, tmp_path)
    assert [u["status"] for u in replayed if u.get("toolCallId")][-1] == "failed"
    again.prompt(id, "go on")
    told = journal("session/prompt")[-1]["params"]["prompt"][0]["text"]
    assert "unknown" not in told
    assert f"did not run, because nobody answered whether they may: execute: ls in {tmp_path}." in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_request_to_end_closes_sessions_and_agent(proxy_process, tmp_path, kept, number):
    """Exit code 0, the agent is gone, the session is closed in good order."""
    editor = proxy_process()
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    agent = int(next(iter(kept.state(id).links["acp"])).split("-")[1])
    editor.process.send_signal(number)
    assert editor.process.wait(120) == 0
    assert next(kept.events(id, reverse=True, limit=1)).type == "closed"
    patience = time.monotonic() + 120
    while _lives(agent) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not _lives(agent)


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_end_of_the_input_ends_all(proxy_process, tmp_path, kept):
    """An editor that goes away leaves nothing behind."""
    editor = proxy_process()
    id = editor.new(tmp_path)
    editor.prompt(id, "hello")
    assert editor.end() == 0
    assert next(kept.events(id, reverse=True, limit=1)).type == "closed"


# --- the store fails ------------------------------------------------------------------------------


def test_a_prompt_that_cannot_be_recorded_does_not_reach_the_agent(proxy, tmp_path, journal):
    """A full disk: a clear error, and the session goes on when there is space again."""
    disk = FaultyDisk(call="write", errno=errno.ENOSPC, persistent=True)
    editor = proxy("--resume", "yes", place=FileStore(tmp_path / "store", disk=disk))
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    before = len(journal("session/prompt"))
    disk.nth = 1
    error = editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "lost"}])
    assert "space" in error["message"]
    assert len(journal("session/prompt")) == before
    disk.nth = 0
    assert editor.prompt(id, "who am I?")["stopReason"] == "end_turn"
    assert "Alice" in text_of(editor.updates())


# --- a lot ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flood_of_50_000_updates_passes_whole_and_in_order(proxy_process, tmp_path, kept):
    """Recorded and shown, with memory that does not grow by the frame."""
    editor = proxy_process("--flood", "50000", store=False)
    id = editor.new(tmp_path)
    assert editor.prompt(id, "go")["stopReason"] == "end_turn"
    peak = _peak_kib(editor.process.pid)
    flood = "".join(f" {number}" for number in range(50_000))
    assert flood in text_of(editor.updates())
    assert peak < 200_000
    editor.end()
    content = kept.recover(id, "neutral").messages[1]["content"]
    assert flood in "".join(block["text"] for block in content)


def _peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def test_a_store_that_fails_in_mid_answer_ends_the_turn_with_an_error(proxy, tmp_path, kept):
    """What could not be recorded is not shown; the next prompt is served once it works again."""
    disk = FaultyDisk(call="write", errno=errno.ENOSPC, persistent=True)
    editor = proxy("--resume", "yes", place=FileStore(tmp_path / "store", disk=disk))
    id = editor.new(tmp_path)

    def fill(frame):
        if frame.get("method") == "session/request_permission":
            disk.nth = 1

    editor.on_frame = fill
    error = editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "use tool"}])
    assert "space" in error["message"]
    editor.on_frame, disk.nth = None, 0
    assert "completed" not in [u.get("status") for u in editor.updates()]
    assert editor.prompt(id, "go on")["stopReason"] == "end_turn"
    assert kept.verify(id).ok


@pytest.mark.parametrize("verb", ["close", "delete"])
def test_a_session_that_is_closed_in_mid_turn_ends_its_turn(proxy, tmp_path, kept, verb):
    """The prompt is answered as cancelled, the agent is told, and the proxy goes on."""
    editor = proxy("--resume", "yes", "--close", "yes")
    id = editor.new(tmp_path)
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "wait"}])
    editor.until(lambda frame: frame.get("method") == "session/update")
    closing = editor.ask(f"session/{verb}", sessionId=id)
    assert editor.wait(number)["result"]["stopReason"] == "cancelled"
    assert editor.wait(closing)["result"] == {}
    if verb == "delete":
        kept.undelete(id)
    ended = next(kept.events(id, types={"turn_end"}, reverse=True))
    assert ended.data["reason"] == "cancelled"
    other = editor.new(tmp_path)
    assert editor.prompt(other, "hello")["stopReason"] == "end_turn"


def test_an_agent_that_does_not_stop_does_not_keep_a_session_open(proxy, tmp_path, kept):
    """After a moment its prompt is answered without it."""
    editor = proxy("--resume", "yes", "--stubborn")
    id = editor.new(tmp_path)
    number = editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "wait"}])
    editor.until(lambda frame: frame.get("method") == "session/update")
    closing = editor.ask("session/close", sessionId=id)
    assert editor.wait(number)["result"]["stopReason"] == "cancelled"
    assert editor.wait(closing)["result"] == {}
    assert next(kept.events(id, reverse=True, limit=1)).type == "closed"


def test_a_second_initialize_starts_the_agent_anew(proxy, tmp_path):
    """And its sessions are given to it again."""
    editor = proxy("--resume", "yes")
    id = editor.new(tmp_path)
    editor.prompt(id, "my name is Alice")
    editor.initialize()
    start = len(editor.seen)
    editor.prompt(id, "who am I?")
    assert "Alice" in text_of(editor.updates(start))


def test_what_was_asked_before_a_session_was_closed_is_answered(proxy, tmp_path):
    """However many requests wait for their turn: none is left without an answer."""
    editor = proxy("--resume", "yes", "--close", "yes")
    id = editor.new(tmp_path)
    asked = [editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "wait"}]) for _ in range(4)]
    asked.append(editor.ask("session/close", sessionId=id))
    asked.append(editor.ask("session/set_mode", sessionId=id, modeId="x"))
    answered = set()
    while set(asked) - answered:
        answered.add(editor.until(lambda frame: "method" not in frame)["id"])
    assert editor.new(tmp_path)
