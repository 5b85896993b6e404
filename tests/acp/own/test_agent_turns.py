"""Our agent in an editor: turns, as they are shown and as they are recorded."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.agent import AgentFile, RunLimits
from holdfast.errors import ModelFailed, UsageError


async def test_what_is_advertised_is_true(serve):
    """Everything about sessions is offered, nobody has to log in, and the agent has a name."""
    editor = await serve()
    can = editor.hello["agentCapabilities"]
    assert editor.hello["protocolVersion"] == 1
    assert can["loadSession"] is True
    assert set(can["sessionCapabilities"]) == {"list", "resume", "fork", "close", "delete"}
    assert can["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
    assert editor.hello["agentInfo"]["name"] == "holdfast"
    assert editor.hello["authMethods"] == []
    assert await editor.call("authenticate", methodId="any") == {}


@pytest.mark.parametrize("version", [0, 1, 2, 65_535])
async def test_the_version_that_there_is_is_offered(serve, version):
    """Whatever an editor asks for, it is told the version that is spoken here."""
    editor = await serve(greets=False)
    hello = await editor.call("initialize", protocolVersion=version)
    assert hello["protocolVersion"] == 1


async def test_an_answer_is_streamed_recorded_and_counted(serve, hf, tmp_path):
    """Words come in pieces, the log has both sides, and tokens are told with the end."""
    editor = await serve("Hello to you too.")
    id = await editor.new(tmp_path)
    answer = await editor.prompt(id, "Hello")
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"]["outputTokens"] > 0
    assert editor.text() == "Hello to you too. "
    recorded = [event.data["content"] for event in hf.events(id, types=("user", "assistant"))]
    assert recorded == ["Hello", "Hello to you too. "]
    assert hf.state(id).metadata["cwd"] == str(tmp_path)


async def test_everything_is_recorded_before_it_is_shown(serve, hf, tmp_path):
    """At the moment when a piece is shown, the log has it."""
    editor = await serve({"thinking": "Hm. ", "text": "one two three"})
    seen = []

    def note(params):
        update = params["update"]
        if "content" in update:
            words = "".join(e.data["content"] for e in hf.events(id, types=("delta",)))
            seen.append(update["content"]["text"] in words)

    id = await editor.new(tmp_path)
    editor.peer._listeners["session/update"] = note
    await editor.prompt(id, "count")
    assert seen
    assert all(seen)


async def test_thoughts_are_shown_as_thoughts(serve, tmp_path):
    """What the model thinks is no part of its answer."""
    editor = await serve({"thinking": "Let me see.", "text": "Four."})
    await editor.prompt(await editor.new(tmp_path), "2+2?")
    assert editor.text("agent_thought_chunk") == "Let me see."
    assert editor.text() == "Four. "


async def test_several_thoughts_of_one_answer_are_shown_once(serve, tmp_path):
    """Each was streamed, and none is told again: not when it is whole, and not in a replay."""
    editor = await serve({"thinking": ["First. ", "Second. "], "text": "Four."})
    id = await editor.new(tmp_path)
    await editor.prompt(id, "2+2?")
    assert editor.text("agent_thought_chunk") == "First. Second. "
    editor.updates.clear()
    await editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    assert editor.text("agent_thought_chunk") == "First. Second. "
    assert editor.text() == "Four. "


async def test_a_title_and_the_context_are_told(serve, tmp_path):
    """The first words become the title; how full the context is comes before the end."""
    editor = await serve("Fine.")
    await editor.prompt(await editor.new(tmp_path), "Plan the trip")
    assert editor.of("session_info_update")[0]["title"] == "Plan the trip"
    [usage] = editor.of("usage_update")
    assert usage["size"] == 200_000
    assert 0 < usage["used"] < 200_000


async def test_a_context_of_unknown_size_is_not_told(serve, script, tmp_path):
    """No size is made up for a model that nobody knows."""
    editor = await serve(script("Fine.", name="unheard-of"))
    await editor.prompt(await editor.new(tmp_path), "Hi")
    assert editor.of("usage_update") == []


async def test_todos_are_shown_as_a_plan(serve, tmp_path):
    """The list that the agent writes is the editor's plan."""
    todos = [
        {"content": "look", "status": "completed", "activeForm": "looking", "priority": "high"},
        {"content": "act", "status": "in_progress", "activeForm": "acting"},
    ]
    editor = await serve([("TodoWrite", {"todos": todos})], "Done.")
    await editor.prompt(await editor.new(tmp_path), "go")
    [plan] = editor.of("plan")
    assert [(e["content"], e["status"], e["priority"]) for e in plan["entries"]] == [
        ("look", "completed", "high"),
        ("act", "in_progress", "medium"),
    ]


async def test_a_cancelled_turn_says_so_and_keeps_its_words(serve, hf, tmp_path):
    """The stop reason is "cancelled", and what was said until then stays."""
    never = asyncio.Event()
    editor = await serve(("Once upon a time ", never, "the end"), "Again.")
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "A story"))
    await editor.shown()
    editor.peer.notify("session/cancel", {"sessionId": id})
    assert (await turn)["stopReason"] == "cancelled"
    assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["cancelled"]
    assert (await editor.prompt(id, "Another"))["stopReason"] == "end_turn"
    told = str(editor.script.requests[-1][0])
    assert "Once upon a time" in told


async def test_a_cancel_right_behind_its_prompt_counts(serve, hf, tmp_path):
    """Sent in one breath, the second stops the first, and what the user said is kept."""
    editor = await serve(("a", asyncio.Event(), "b"))
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "go"))
    await asyncio.sleep(0)
    editor.peer.notify("session/cancel", {"sessionId": id})
    assert (await turn)["stopReason"] == "cancelled"
    assert [e.data["content"] for e in hf.events(id, types=("user",))] == ["go"]
    assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["cancelled"]


async def test_a_prompt_whose_request_is_cancelled_ends_its_turn(serve, hf, tmp_path):
    """Nobody waits for it any more: it is stopped, that is on record, and the next is served."""
    editor = await serve(("Once ", asyncio.Event(), "the end"), "Again.")
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "A story"))
    await editor.shown()
    turn.cancel()  # which tells the other side
    while editor.server._live[id].is_busy:  # noqa: ASYNC110 - nobody is told of its end
        await asyncio.sleep(0.01)
    assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["cancelled"]
    assert (await editor.prompt(id, "Another"))["stopReason"] == "end_turn"


async def test_a_second_prompt_is_refused_while_one_runs(serve, tmp_path):
    """It is told why, and the first goes on."""
    go = asyncio.Event()
    editor = await serve(("wait ", go, "done"))
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "first"))
    await editor.shown()
    error = await editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "second"}])
    assert error.code == -32600
    assert "already" in error.message
    assert (
        "already"
        in (await editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "/todos"}])).message
    )
    go.set()
    assert (await turn)["stopReason"] == "end_turn"


async def test_sessions_are_served_at_once_and_apart(serve, tmp_path):
    """Two sessions answer at the same time, each with its own words."""
    go = asyncio.Event()
    editor = await serve(("slow ", go, "done"), "quick")
    slow, quick = await editor.new(tmp_path), await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(slow, "a"))
    await editor.shown()
    assert (await editor.prompt(quick, "b"))["stopReason"] == "end_turn"
    go.set()
    await turn
    assert [u["content"]["text"] for u in editor.of("agent_message_chunk", quick)] == ["quick "]
    words = "".join(u["content"]["text"] for u in editor.of("agent_message_chunk", slow))
    assert words == "slow done "


async def test_a_model_that_fails_is_told_and_the_session_goes_on(serve, hf, tmp_path):
    """The error says what went wrong; the next prompt is answered."""
    editor = await serve(ModelFailed("no more tokens today"), "Better.")
    id = await editor.new(tmp_path)
    error = await editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "x"}])
    assert error.code == -32603
    assert "no more tokens" in error.message
    assert error.data == {"code": "model_failed"}
    assert (await editor.prompt(id, "again"))["stopReason"] == "end_turn"
    assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["failed", "completed"]


async def test_images_links_and_files_reach_the_model(serve, hf, tmp_path):
    """A picture is given as a picture, an embedded file with its text, a link by its address."""
    editor = await serve("Seen.")
    id = await editor.new(tmp_path)
    blocks = [
        {"type": "text", "text": "Look"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.py", "text": "print(1)"}},
        {"type": "resource_link", "uri": "file:///b.py", "name": "b.py"},
    ]
    await editor.prompt(id, blocks)
    told = str(editor.script.requests[0][0])
    assert "BinaryContent" in told
    assert "print(1)" in told
    assert "file:///b.py" in told
    [said] = hf.events(id, types=("user",))
    assert [block["type"] for block in said.data["content"]] == ["text", "image", "text", "text"]


async def test_an_embedded_model_gets_no_tools_and_no_pictures(serve, tmp_path):
    """What it cannot do is not offered, and refused."""
    editor = await serve("Hi.", small_window=4096)
    assert editor.hello["agentCapabilities"]["promptCapabilities"]["image"] is False
    id = await editor.new(tmp_path)
    await editor.prompt(id, "Hello")
    assert editor.script.requests[0][1].function_tools == []
    assert editor.of("usage_update")[0]["size"] == 4096
    image = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    assert (await editor.fail("session/prompt", sessionId=id, prompt=image)).code == -32602


async def test_a_run_that_never_ends_stops_with_its_reason(serve, tmp_path, monkeypatch):
    """Too many steps are a stop reason of the protocol, and no error."""
    from holdfast.agent import Agent

    made = Agent.__init__
    monkeypatch.setattr(Agent, "__init__", lambda self, *a, **k: made(self, *a, max_iterations=2, **k))
    editor = await serve([("recall", {})])
    answer = await editor.prompt(await editor.new(tmp_path), "loop")
    assert answer["stopReason"] == "max_turn_requests"


@pytest.mark.parametrize(("limits", "told"), [({"tokens": 1}, "max_tokens"), ({"time_ms": 1}, "max_turn_requests")])
async def test_a_run_that_a_limit_stopped_says_so(serve, tmp_path, limits, told):
    """By the reason of the protocol that is nearest."""
    file = AgentFile(name="agent", path="a.md", instructions="", limits=RunLimits(**limits))
    editor = await serve([("recall", {})], agent_id="agent", agents={"agent": file})
    answer = await editor.prompt(await editor.new(tmp_path), "loop")
    assert answer["stopReason"] == told


async def test_a_model_that_cannot_be_had_is_told_with_the_prompt(serve, hf, tmp_path):
    """Sessions are opened and listed without it; a prompt is kept, and says what is missing."""

    def missing():
        raise UsageError("the model needs an API key", remedy="Set ANTHROPIC_API_KEY.")

    editor = await serve()
    editor.server._kit.late_model._make = missing
    id = await editor.new(tmp_path)
    error = await editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "x"}])
    assert error.message == "the model needs an API key. Set ANTHROPIC_API_KEY."
    assert len((await editor.call("session/list"))["sessions"]) == 1
    assert [e.data["content"] for e in hf.events(id, types=("user",))] == ["x"]


async def test_a_long_result_is_shown_whole(serve, hf, tmp_path):
    """Also if it is kept beside the log."""
    text = "x" * 300_000
    (tmp_path / "long.txt").write_text(text)
    editor = await serve([("read_file", {"path": "long.txt"})], "Long.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "read it")
    assert any(b"$blob" in bytes(event.raw) for event in hf.events(id))
    assert editor.of("tool_call_update")[-1]["content"][0]["content"]["text"] == text


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{nonsense\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0","id":"q","method":"session/unheard"}\n', -32601),
        (b'{"jsonrpc":"2.0","id":"q","method":"session/list","params":[1]}\n', -32602),
    ],
)
async def test_malformed_frames_are_answered(serve, line, code):
    """As JSON-RPC demands, and the next request is served."""
    editor = await serve()
    heard = asyncio.get_running_loop().create_future()

    take = editor.peer._take

    async def note(line):
        frame = json.loads(line)
        if "error" in frame and not heard.done():
            heard.set_result(frame["error"]["code"])
        await take(line)

    editor.peer._take = note
    editor.pipe.write(line)
    assert await heard == code
    editor.peer.notify("session/cancel", {"sessionId": ["no id"]})
    editor.peer.notify("session/cancel", {"sessionId": "nobody"})
    assert (await editor.call("session/list"))["sessions"] == []


async def test_what_others_record_is_shown_too(serve, tmp_path):
    """A message, a thought and a plan that no turn of ours made."""
    editor = await serve()
    session = editor.server._live[await editor.new(tmp_path)].session
    await asyncio.to_thread(session.assistant, "from elsewhere")
    session.thinking("hm")
    session.todos.write([{"content": "act", "status": "pending", "activeForm": "acting"}])
    await editor.shown("plan")
    assert editor.text() == "from elsewhere"
    assert editor.text("agent_thought_chunk") == "hm"


async def test_cost_and_cached_tokens_are_told(serve, tmp_path, monkeypatch):
    """As far as the provider and the prices say."""
    from pydantic_ai.usage import RequestUsage

    from holdfast.agent import _providers

    figures = RequestUsage(input_tokens=900, output_tokens=50, cache_read_tokens=400, cache_write_tokens=30)
    read = _providers.read_reply

    def priced(response):
        response.usage = figures
        response.model_name = "claude-sonnet-4-5"
        return read(response)

    monkeypatch.setattr("holdfast.agent._providers.read_reply", priced)
    editor = await serve("Fine.")
    answer = await editor.prompt(await editor.new(tmp_path), "Hi")
    assert answer["usage"] == {
        "inputTokens": 900,
        "outputTokens": 50,
        "totalTokens": 950,
        "cachedReadTokens": 400,
        "cachedWriteTokens": 30,
    }
    [usage] = editor.of("usage_update")
    assert usage["used"] == 950
    assert usage["cost"]["amount"] > 0
    assert usage["cost"]["currency"] == "USD"
