"""The editor's MCP servers: their tools are used, and nothing of their secrets is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.agent._mcp_servers as mcp_servers

TINY = Path(__file__).parents[1] / "agents" / "tools_server.py"
SECRET = "quite-unguessable-83"
PATIENCE_S = 120


def tiny(tmp_path, *wishes, name="tiny"):
    """The description of the server, as editors give it."""
    return {
        "name": name,
        "command": sys.executable,
        "args": [str(TINY), str(tmp_path / f"{name}.pid"), *wishes],
        "env": [{"name": "TINY_SECRET", "value": SECRET}],
    }


async def begin(editor, tmp_path, *servers):
    """A new session with these servers."""
    made = await editor.call("session/new", cwd=str(tmp_path), mcpServers=list(servers))
    return made["sessionId"]


def everything(root):
    """All bytes of a store, the names of its files among them."""
    found = sorted(root.rglob("*"))
    return b"\n".join(str(one).encode() + (one.read_bytes() if one.is_file() else b"") for one in found)


async def ends(place):
    """Return once a process is no more."""
    number = int(place.read_text())
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(number, 0)
                await asyncio.sleep(0.02)


async def test_tools_of_a_server_are_used_with_permission(serve, script, store_root, tmp_path):
    """The model is told of them, the user is asked, and the server gets its secret; nobody else."""
    model = script([("tiny_look", {"text": "the sea"})], "done")
    editor = await serve(model)
    id = await begin(editor, tmp_path, tiny(tmp_path))
    assert (await editor.prompt(id, "look"))["stopReason"] == "end_turn"
    offered = [tool.name for tool in model.requests[0][1].function_tools]
    assert {"tiny_look", "tiny_fail", "tiny_shape", "tiny_look_2"} <= set(offered)
    [asked] = [one for one in editor.requests if "toolCall" in one]
    assert asked["toolCall"]["rawInput"] == {"text": "the sea"}
    ended = editor.of("tool_call_update")[-1]
    assert ended["status"] == "completed"
    shown = ended["content"][0]["content"]["text"]
    assert shown == f"the sea {len(SECRET)}\n[image, which cannot be shown]"
    await editor.call("session/close", sessionId=id)
    await ends(tmp_path / "tiny.pid")
    assert SECRET.encode() not in everything(store_root)
    assert TINY.name.encode() not in everything(store_root)


async def test_what_a_tool_says_of_its_failure_reaches_the_model(serve, tmp_path):
    """As a failed call; a server that dies fails the call, not the session."""
    steps = [[("tiny_fail", {})], [("tiny_shape", {})], [("tiny_break", {})], "done"]
    editor = await serve(*steps)
    id = await begin(editor, tmp_path, tiny(tmp_path))
    assert (await editor.prompt(id, "go"))["stopReason"] == "end_turn"
    ends_of = [one for one in editor.of("tool_call_update") if one["status"] != "in_progress"]
    assert [one["status"] for one in ends_of] == ["failed", "completed", "failed"]
    assert "it is locked" in str(ends_of[0])
    assert "sides" in str(ends_of[1])
    assert "the MCP server tiny failed" in str(ends_of[2])


async def test_nothing_is_called_in_the_mode_read_only(serve, tmp_path):
    """Even if the user allowed the tool for the session before."""
    editor = await serve([("tiny_look", {"text": "a"})], "one", [("tiny_look", {"text": "b"})], "two")
    editor.option = "allow_always"
    id = await begin(editor, tmp_path, tiny(tmp_path))
    await editor.prompt(id, "go")
    await editor.call("session/set_mode", sessionId=id, modeId="read-only")
    await editor.prompt(id, "again")
    statuses = [one["status"] for one in editor.of("tool_call_update")]
    assert [one for one in statuses if one != "in_progress"] == ["completed", "failed"]


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"name": "gone", "command": f"/no/such/{SECRET}", "args": []}, "there is no such command"),
        ({"name": "none", "args": []}, "there is no such command"),
        ({"name": "odd", "type": "http", "url": f"ftp://{SECRET}/"}, "its address cannot be used"),
        ({"name": "far", "type": "http", "url": f"http://127.0.0.1:9/?{SECRET}"}, "it failed ("),
        ({"name": "old", "type": "sse", "url": f"http://127.0.0.1:9/?{SECRET}"}, "it failed ("),
    ],
)
async def test_a_server_that_cannot_be_had_is_told(serve, store_root, tmp_path, server, why):
    """By its name and why, without its address; the session works without it."""
    editor = await serve("hello")
    id = await begin(editor, tmp_path, server, {"name": 7}, "?")
    assert (await editor.prompt(id, "hi"))["stopReason"] == "end_turn"
    said = editor.text()
    assert f"The MCP server {server['name']} could not be used: {why}" in said
    assert "hello" in said
    assert SECRET not in said
    assert SECRET.encode() not in everything(store_root)


async def test_a_server_that_does_not_answer_is_not_waited_for_long(serve, tmp_path, monkeypatch):
    """It is ended, and the user told."""
    monkeypatch.setattr(mcp_servers, "_START_S", 3)
    editor = await serve("hello")
    id = await begin(editor, tmp_path, tiny(tmp_path, "hang"))
    assert (await editor.prompt(id, "hi"))["stopReason"] == "end_turn"
    assert "it did not answer within" in editor.text()
    place = tmp_path / "tiny.pid"
    if place.exists():  # else a busy machine had not even begun with it
        await ends(place)


async def test_a_session_that_is_loaded_has_the_servers_that_it_is_loaded_with(serve, script, tmp_path):
    """The same ones stay; others take their place, and with none they are ended."""
    model = script("hello")
    editor = await serve(model)
    id = await begin(editor, tmp_path, tiny(tmp_path))
    await editor.prompt(id, "hi")
    load = {"sessionId": id, "cwd": str(tmp_path)}
    first = (tmp_path / "tiny.pid").read_text()
    await editor.call("session/load", **load, mcpServers=[tiny(tmp_path)])
    await editor.prompt(id, "hi")
    assert (tmp_path / "tiny.pid").read_text() == first
    await editor.call("session/resume", **load, mcpServers=[tiny(tmp_path, name="other")])
    await ends(tmp_path / "tiny.pid")
    await editor.prompt(id, "hi")
    names = [{tool.name for tool in info.function_tools} for _, info in model.requests]
    assert ["tiny_look" in one for one in names] == [True, True, False]
    assert "other_look" in names[2]
    await editor.call("session/load", **load, mcpServers=[])
    await ends(tmp_path / "other.pid")


async def test_a_model_that_calls_no_tools_gets_no_servers(serve, tmp_path):
    """The user is told so, by the names of the servers and nothing else of them."""
    editor = await serve("hello", small_window=2_000)
    id = await begin(editor, tmp_path, tiny(tmp_path))
    await editor.prompt(id, "hi")
    assert "these MCP servers are not used: tiny." in editor.text()
    assert not (tmp_path / "tiny.pid").exists()


@pytest.fixture
def shelf(hf, store_root):
    """A server by HTTP in a process of its own, as editors describe it."""
    with hf.session("shelf") as session:
        session.user("books")
    command = [str(Path(sys.executable).with_name("holdfast")), "--store", str(store_root)]
    serving = [*command, "mcp", "--http", "--port", "0"]
    with subprocess.Popen(serving, stderr=subprocess.PIPE, text=True) as process:
        where, token = (process.stderr.readline().split()[-1] for _ in range(2))
        header = {"name": "Authorization", "value": f"Bearer {token}"}
        yield {"type": "http", "name": "shelf", "url": where, "headers": [header]}
        process.terminate()


async def test_a_server_by_http(serve, shelf, store_root, tmp_path):
    """With the headers that the editor gave, of which nothing is kept."""
    editor = await serve([("shelf_list_sessions", {})], "done")
    id = await begin(editor, tmp_path, shelf)
    await editor.prompt(id, "list")
    await editor.call("session/close", sessionId=id)
    assert "books" in str(editor.of("tool_call_update")[-1])
    token = shelf["headers"][0]["value"].removeprefix("Bearer ")
    assert token.encode() not in everything(store_root)
