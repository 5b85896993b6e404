"""Commands of our agent: prompts that begin with a slash."""

from __future__ import annotations

import pytest


async def say(editor, id, text):
    """Give a command; what was answered to it."""
    before = len(editor.text())
    assert (await editor.prompt(id, text))["stopReason"] == "end_turn"
    return editor.text()[before:]


async def test_the_commands_are_told_after_the_session_is(serve, tmp_path):
    """An editor hears of them for each session, with what they take."""
    editor = await serve()
    id = await editor.new(tmp_path)
    await editor.shown("available_commands_update")
    [told] = editor.of("available_commands_update", id)
    commands = {each["name"]: each for each in told["availableCommands"]}
    assert {"title", "tag", "status", "fork", "mode", "continue", "help"} <= set(commands)
    assert commands["title"]["input"] == {"hint": "[TEXT]"}
    assert "input" not in commands["status"]
    assert (await say(editor, id, "/help")).count("\n") == len(commands) - 1


async def test_a_command_is_not_for_the_model(serve, hf, tmp_path):
    """It is answered by us, is on record, and neither a later turn nor a replay has it."""
    editor = await serve("Hi.")
    id = await editor.new(tmp_path)
    assert await say(editor, id, "/title The trip") == "The trip"
    assert editor.script.requests == []
    assert hf.state(id).title == "The trip"
    assert editor.of("session_info_update")[-1]["title"] == "The trip"
    frames = [event.data for event in hf.events(id, types=("frame",))]
    assert [frame["direction"] for frame in frames] == ["holdfast", "holdfast"]
    await editor.prompt(id, "Hello")
    assert "The trip" not in str(editor.script.requests[0][0])
    before = len(editor.updates)
    await editor.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
    told = [u for _, u in editor.updates[before:] if u["sessionUpdate"].endswith("chunk")]
    assert [u["content"]["text"] for u in told] == ["Hello", "Hi. "]


async def test_tags_todos_and_memory_are_shown(serve, hf, tmp_path):
    """What there is, or that there is nothing."""
    editor = await serve()
    id = await editor.new(tmp_path)
    assert await say(editor, id, "/tag") == "This session has no tags."
    assert await say(editor, id, "/tag work urgent") == "work, urgent"
    assert await say(editor, id, "/tag -urgent -") == "work"
    assert await say(editor, id, "/todos") == "There are no todos."
    assert await say(editor, id, "/memory") == "Nothing is remembered yet."
    session = editor.server._live[id].session
    session.todos.write([{"content": "act", "status": "in_progress", "activeForm": "acting"}])
    session.memory.set("colour", "blue")
    assert await say(editor, id, "/todos") == "[>] act"
    assert "colour: blue" in await say(editor, id, "/memory")


async def test_status_tells_what_the_session_is(serve, hf, tmp_path):
    """Its id, how much there is, the mode, the model, and where it is kept."""
    editor = await serve("Hi.", about="Model: scripted.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "Hello")
    told = await say(editor, id, "/status")
    for part in (id, "2 messages", "Title: Hello", "Mode: ask", "Model: scripted."):
        assert part in told
    assert hf.location(id) in told


async def test_a_fork_is_made_and_named(serve, hf, tmp_path):
    """Whole, or up to an event; what is no number is refused in words."""
    editor = await serve("Hi.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "Hello")
    told = await say(editor, id, "/fork")
    made = told.split()[1].rstrip(",")
    assert hf.state(made).parent.session == id
    assert "Made" in await say(editor, id, "/fork 2")
    assert "did not work" in await say(editor, id, "/fork yesterday")
    assert "did not work" in await say(editor, id, "/tag " + "x" * 10_000)


async def test_the_mode_is_shown_and_set(serve, tmp_path):
    """The editor hears of the change; a mode that there is not is refused in words."""
    editor = await serve()
    id = await editor.new(tmp_path)
    assert (await say(editor, id, "/mode")).startswith("Ask:")
    assert (await say(editor, id, "/mode auto")).startswith("Auto:")
    assert editor.of("current_mode_update")[-1]["currentModeId"] == "auto"
    assert "there is no mode" in await say(editor, id, "/mode yolo")


async def test_without_anything_to_go_on_with_continue_is_refused(serve, tmp_path):
    """The error says why."""
    editor = await serve()
    id = await editor.new(tmp_path)
    error = await editor.fail("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "/continue"}])
    assert "nothing to continue" in error.message


@pytest.mark.parametrize("text", ["/unknown", "/etc/passwd is odd", "/ title", "// title"])
async def test_what_only_looks_like_a_command_is_for_the_model(serve, tmp_path, text):
    """A path or an unknown word with a slash is a prompt like any other."""
    editor = await serve("Hm.")
    assert await say(editor, await editor.new(tmp_path), text) == "Hm. "
    assert text in str(editor.script.requests[0][0])
