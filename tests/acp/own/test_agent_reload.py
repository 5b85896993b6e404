"""Loading a session while its turn goes on."""

from __future__ import annotations

import asyncio
import threading

from holdfast.apps.acp import replay as past


async def test_a_load_in_mid_turn_tells_everything_once_and_in_order(serve, tmp_path, monkeypatch):
    """What comes while the past is told comes after it, once, and before the turn's end."""
    go_on, told = asyncio.Event(), threading.Event()
    next_lines = past.next_lines

    def slow(lines):
        assert told.wait(120)
        return next_lines(lines)

    monkeypatch.setattr(past, "next_lines", slow)
    editor = await serve(("first ", go_on, "and then the rest"))
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "tell me"))
    await editor.shown()
    editor.updates.clear()
    load = asyncio.ensure_future(editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[]))
    await editor.call("session/list")
    go_on.set()
    live = editor.server._live[id]
    while live.session.live_state.open_turns:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    await editor.call("session/list")  # what is to be shown has been
    assert not editor.of("agent_message_chunk")
    assert not turn.done()
    told.set()
    await asyncio.gather(load, turn)
    words = [update for _, update in editor.updates if "content" in update]
    assert words[0]["sessionUpdate"] == "user_message_chunk"
    assert editor.text() == "first and then the rest "


async def left_asking(serve, tmp_path):
    """A session whose editor is gone while its user was asked; the session's id."""
    editor = await serve([("write_file", {"path": "a", "content": "x"}, "call-w")], lends=("write",))
    editor.hang = asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "write"))
    await editor.asked.wait()
    editor.pipe.close()
    await editor.served
    await asyncio.gather(turn, return_exceptions=True)
    editor.hang.set()
    return id


async def test_a_load_asks_again_and_the_answer_is_carried_out(serve, hf, tmp_path):
    """The next editor's user is asked about the same call, and what is allowed is done once."""
    id = await left_asking(serve, tmp_path)
    assert [one.call for one in hf.waiting(session=id)] == ["call-w"]
    editor = await serve("Written.", lends=("write",))
    editor.hang = asyncio.Event()
    await editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    await editor.asked.wait()
    [asked] = editor.requests
    assert asked["toolCall"]["toolCallId"] == "call-w"
    assert [one["toolCallId"] for one in editor.of("tool_call")] == ["call-w"]
    assert "failed" not in [one.get("status") for one in editor.of("tool_call_update")]
    editor.hang.set()
    await editor.shown("agent_message_chunk")
    assert editor.files == {str(tmp_path / "a"): "x"}
    assert not hf.waiting(session=id)
    answers = [event.data for event in hf.events(id, types=("permission",))]
    assert [(one["decision"], one["via"]) for one in answers] == [("allow", "acp")]


async def test_an_answer_from_elsewhere_takes_the_question_back(serve, hf, tmp_path):
    """The turn goes on at once; nobody has to answer in the editor what somebody else answered."""
    editor = await serve([("write_file", {"path": "a", "content": "x"}, "call-w")], "Written.", lends=("write",))
    editor.hang = asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "write"))
    await editor.asked.wait()
    [one] = hf.waiting(session=id)
    hf.answer(one.id, True, by="ada")
    assert (await asyncio.wait_for(turn, 120))["stopReason"] == "end_turn"
    assert (editor.files, hf.waiting(session=id)) == ({str(tmp_path / "a"): "x"}, [])


async def test_a_question_that_is_put_away_after_a_load_waits_on(serve, hf, tmp_path):
    """Nobody has decided: it is neither denied nor lost, and a prompt is answered all the same."""
    id = await left_asking(serve, tmp_path)
    for option in ({"outcome": {"outcome": "cancelled"}}, "error"):
        editor = await serve("Fine.", lends=("write",))
        editor.option = option
        await editor.call("session/resume", sessionId=id, cwd=str(tmp_path), mcpServers=[])
        await editor.asked.wait()
        await editor.call("session/close", sessionId=id)
        assert [one.call for one in hf.waiting(session=id)] == ["call-w"]
    editor.hang = asyncio.Event()
    editor.asked.clear()
    await editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    await editor.asked.wait()
    assert (await editor.prompt(id, "never mind"))["stopReason"] == "end_turn"
    assert not editor.files
    editor.hang.set()
