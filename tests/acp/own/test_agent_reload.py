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
