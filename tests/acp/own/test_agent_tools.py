"""Our agent's tools in an editor: files, terminals, permissions and modes."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.apps.acp.replay.replay import replay
from holdfast.library import Holdfast


def names(editor):
    """The tools that the model was offered first."""
    return {tool.name for tool in editor.script.requests[0][1].function_tools}


def results(hf, id):
    """What the calls of a session gave."""
    return [event.data["result"] for event in hf.events(id, types=("tool_result",))]


def last(updates):
    """What is shown of one call in the end: later members replace earlier ones."""
    merged = {}
    for update in updates:
        merged |= update
    return merged


async def test_only_what_the_editor_lends_is_offered(serve, tmp_path):
    """Without files and terminals of the editor there is reading, and nothing that changes."""
    editor = await serve("Hi.")
    await editor.prompt(await editor.new(tmp_path), "x")
    assert {"read_file", "list_directory", "TodoWrite", "remember"} <= names(editor)
    assert not {"write_file", "edit_file", "run_command"} & names(editor)
    lent = await serve("Hi.", lends=("read", "write", "terminal"))
    await lent.prompt(await lent.new(tmp_path), "x")
    assert {"write_file", "edit_file", "run_command", "read_file"} <= names(lent)


async def test_a_file_is_read_from_disk_without_the_editors_help(serve, hf, tmp_path):
    """It is shown as reading, with its place, and its text comes with the end."""
    (tmp_path / "a.txt").write_text("hello")
    editor = await serve([("read_file", {"path": "a.txt"})], [("list_directory", {})], "Read.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "read it")
    [call, _listing] = editor.of("tool_call")
    assert call["kind"] == "read"
    assert call["status"] == "in_progress"
    assert "a.txt" in call["title"]
    assert call["locations"] == [{"path": str(tmp_path / "a.txt")}]
    assert call["rawInput"] == {"path": "a.txt"}
    [end, _] = editor.of("tool_call_update")
    assert end["status"] == "completed"
    assert end["content"] == [{"type": "content", "content": {"type": "text", "text": "hello"}}]
    assert results(hf, id)[0] == "hello"
    assert "a.txt" in results(hf, id)[1]


async def test_a_file_is_read_as_the_editor_has_it(serve, hf, tmp_path):
    """What is not saved yet is read, through the editor."""
    editor = await serve([("read_file", {"path": "a.txt"})], "Read.", lends=("read",))
    editor.files[str(tmp_path / "a.txt")] = "unsaved"
    id = await editor.new(tmp_path)
    await editor.prompt(id, "read it")
    assert results(hf, id) == ["unsaved"]
    assert editor.requests[0] == {"sessionId": id, "path": str(tmp_path / "a.txt")}


@pytest.mark.parametrize("path", ["../out.txt", "/etc/passwd", "link/x", "", "a\0b"])
@pytest.mark.parametrize("lends", [(), ("read",)])
async def test_nothing_outside_of_the_project_is_read(serve, hf, tmp_path, path, lends):
    """Neither by name, nor by a way around, nor by a symlink."""
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "x").write_text("secret")
    (tmp_path / "out.txt").write_text("secret")
    (root / "link").symlink_to(tmp_path)
    editor = await serve([("read_file", {"path": path})], "No.", lends=lends)
    id = await editor.new(root)
    await editor.prompt(id, "read it")
    [result] = results(hf, id)
    assert result["error"] is True
    assert editor.requests == []
    assert editor.of("tool_call_update")[0]["status"] == "failed"


async def test_writing_asks_with_a_diff_and_goes_through_the_editor(serve, hf, tmp_path):
    """The user sees old and new text before and after, and the editor writes the file."""
    path = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("older")
    call = ("write_file", {"path": "a.txt", "content": "new\n"}, "call-w")
    editor = await serve([call], "Written.", lends=("read", "write"))
    editor.files[path] = "old\n"
    id = await editor.new(tmp_path)
    await editor.prompt(id, "write it")
    asked = next(r for r in editor.requests if "options" in r)
    diff = {"type": "diff", "path": path, "newText": "new\n", "oldText": "old\n"}
    assert asked["toolCall"]["toolCallId"] == "call-w"
    assert asked["toolCall"]["content"] == [diff]
    assert [o["kind"] for o in asked["options"]] == ["allow_once", "allow_always", "reject_once"]
    assert editor.files[path] == "new\n"
    [begun] = editor.of("tool_call")
    assert begun["status"] == "pending"
    shown = last([begun, *editor.of("tool_call_update")])
    assert shown["status"] == "completed"
    assert shown["content"] == [diff]
    assert shown["locations"] == [{"path": path}]
    assert results(hf, id) == ["a.txt is written and has 1 line"]


async def test_a_new_file_has_no_old_text(serve, tmp_path):
    """The diff of a file that was not there says so by leaving it out; nobody reads it in vain."""
    call = ("write_file", {"path": "b.txt", "content": "x"})
    editor = await serve([call], "Written.", lends=("read", "write"))
    await editor.prompt(await editor.new(tmp_path), "write it")
    [asked] = editor.requests
    [diff] = asked["toolCall"]["content"]
    assert "oldText" not in diff
    assert editor.files == {str(tmp_path / "b.txt"): "x"}


async def test_an_edit_replaces_the_one_place(serve, hf, tmp_path):
    """What occurs once is replaced; what occurs twice, or not at all, is refused."""
    edits = [
        ("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
        ("edit_file", {"path": "a.txt", "old_text": "o", "new_text": "0"}),
        ("edit_file", {"path": "a.txt", "old_text": "", "new_text": "0"}),
    ]
    editor = await serve(*[[edit] for edit in edits], "Done.", lends=("read", "write"))
    path = str(tmp_path / "a.txt")
    editor.files[path] = "one two go on"
    id = await editor.new(tmp_path)
    await editor.prompt(id, "edit it")
    assert editor.files[path] == "one 2 go on"
    first, second, third = results(hf, id)
    assert first == "a.txt is written and has 1 line"
    assert "occurs 3 times" in second["message"]
    assert "occurs 0 times" in third["message"]


async def test_a_command_runs_in_a_terminal_of_the_editor(serve, hf, tmp_path):
    """The terminal is shown while it runs and released then; its output is in the log."""
    call = ("run_command", {"command": "make test"}, "call-r")
    editor = await serve([call], "It passed.", lends=("terminal",))
    editor.output = "ok\n"
    id = await editor.new(tmp_path)
    await editor.prompt(id, "run it")
    made = next(r for r in editor.requests if "command" in r)
    assert made["args"] == ["-c", "make test"]
    assert made["cwd"] == str(tmp_path)
    assert [r["terminalId"] for r in editor.requests if "terminalId" in r] == ["term-1"]
    shown = last([*editor.of("tool_call"), *editor.of("tool_call_update")])
    assert shown["kind"] == "execute"
    assert shown["content"] == [{"type": "terminal", "terminalId": "term-1"}]
    assert results(hf, id) == [{"exit_code": 0, "output": "ok\n"}]


async def test_a_command_that_takes_too_long_is_ended(serve, hf, tmp_path):
    """It is killed and released, and the model is told."""
    call = ("run_command", {"command": "sleep 9", "timeout_s": 1})
    editor = await serve([call], "Too slow.", lends=("terminal",), mode="auto")
    editor.hang, editor.exit_status = asyncio.Event(), {"exitCode": None, "signal": "KILL"}
    id = await editor.new(tmp_path)
    await editor.prompt(id, "run it")
    [result] = results(hf, id)
    assert result["timed_out"] is True
    assert result["signal"] == "KILL"
    assert len([r for r in editor.requests if r.get("terminalId")]) == 2


async def test_a_cancelled_command_leaves_no_terminal(serve, hf, tmp_path):
    """Stopping the turn kills and releases what it started."""
    editor = await serve([("run_command", {"command": "sleep 9"})], lends=("terminal",), mode="auto")
    editor.hang = asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "run it"))
    await editor.asked.wait()
    editor.peer.notify("session/cancel", {"sessionId": id})
    assert (await turn)["stopReason"] == "cancelled"
    assert len([r for r in editor.requests if r.get("terminalId")]) == 2
    assert results(hf, id)[0]["cancelled"] is True


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("allow_once", True),
        ("reject_once", False),
        ("unheard-of", False),
        ("error", False),
        ({"outcome": "nonsense"}, False),
        ({}, False),
    ],
)
async def test_only_a_yes_is_a_yes(serve, hf, tmp_path, option, written):
    """Whatever else an editor answers means no, and the model is told."""
    editor = await serve([("write_file", {"path": "a", "content": "x"})], "So.", lends=("write",))
    editor.option = option
    id = await editor.new(tmp_path)
    assert (await editor.prompt(id, "write"))["stopReason"] == "end_turn"
    assert bool(editor.files) is written
    [asked] = [e.data for e in hf.events(id, types=("suspended",))]
    [answered] = [e.data for e in hf.events(id, types=("permission",))]
    assert (asked["id"], asked["call"]) == (answered["id"], answered["call"])
    assert answered["decision"] == ("allow" if written else "deny")
    if not written:
        assert "Permission denied" in results(hf, id)[0]["message"]


async def test_what_redaction_hides_is_written_as_it_was_said(serve, tmp_path):
    """The log keeps no secret; the call that is allowed while its editor is here has it all the same."""
    text = "key = 'sk-ant-" + "api03-" + "A1b2C3d4" * 11 + "'"
    with Holdfast(f"file://{tmp_path}/redacted", redaction="mark") as library:
        editor = await serve([("write_file", {"path": "a", "content": text})], "So.", lends=("write",), library=library)
        id = await editor.new(tmp_path)
        await editor.prompt(id, "write")
        assert text not in str([event.data for event in library.events(id)])
        assert editor.files == {str(tmp_path / "a"): text}
        editor.pipe.close()
        await editor.served


async def test_always_holds_for_the_session_and_no_longer(serve, tmp_path):
    """The second call of the session is not asked about; another session's is."""
    editor = await serve([("write_file", {"path": "a", "content": "x"})], "So.", lends=("write",))
    editor.script.steps = [editor.script.steps[0], "So."] * 3 + ["So."]
    editor.option = "allow_always"
    one, other = await editor.new(tmp_path), await editor.new(tmp_path)
    for id, asked in ((one, 1), (one, 1), (other, 2)):
        await editor.prompt(id, "write")
        assert len([r for r in editor.requests if "options" in r]) == asked


async def test_a_question_is_on_record_before_it_is_asked(serve, hf, tmp_path):
    """The log has the whole question at the moment when the user sees it."""
    editor = await serve([("write_file", {"path": "a", "content": "x"})], "So.", lends=("write",))
    editor.hang = asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "write"))
    await editor.asked.wait()
    asked = [e.data["frame"] for e in hf.events(id, types=("frame",))]
    assert [frame["method"] for frame in asked] == ["session/request_permission"]
    assert asked[0]["params"]["toolCall"]["content"][0]["newText"] == "x"
    editor.hang.set()
    await turn


async def test_a_crash_while_the_user_is_asked_or_a_command_runs(serve, hf, tmp_path):
    """Whoever loads the session then is shown the command, and whether it may have run."""
    call = ("run_command", {"command": "./deploy.sh production"}, "c1")
    editor = await serve([call], "So.", lends=("terminal",))
    editor.hang = asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "deploy"))

    async def loaded():
        """The call as an editor shows it if the log ends here."""
        await editor.asked.wait()
        lines = map(json.loads, replay(list(hf.events(id)), id))
        updates = [line["params"]["update"] for line in lines]
        about = [one for one in updates if one.get("toolCallId") == "c1"]
        assert [one["sessionUpdate"] for one in about].count("tool_call") == 1
        assert about[0]["rawInput"] == {"command": "./deploy.sh production"}
        assert about[-1]["status"] == "failed"
        return about[-1]["content"][0]["content"]["text"]

    assert await loaded() == "not run: nobody answered whether it may run"
    waits, editor.hang = editor.hang, asyncio.Event()
    editor.asked.clear()
    waits.set()
    assert await loaded() == "interrupted, outcome unknown"
    editor.hang.set()
    await turn


@pytest.mark.parametrize("how", ["notification", "outcome"])
async def test_cancelled_while_the_user_is_asked(serve, hf, tmp_path, how):
    """The turn ends as cancelled, nothing was written, and the call waits until something else is said."""
    editor = await serve([("write_file", {"path": "a", "content": "x"})], "So.", lends=("write",))
    editor.option, editor.hang = {"outcome": {"outcome": "cancelled"}}, asyncio.Event()
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "write"))
    await editor.asked.wait()
    if how == "notification":
        editor.peer.notify("session/cancel", {"sessionId": id})
    else:
        editor.hang.set()
    assert (await turn)["stopReason"] == "cancelled"
    assert editor.files == {}
    assert editor.of("tool_call_update")[-1]["status"] == "pending"
    assert [one.tool for one in hf.waiting(session=id)] == ["write_file"]
    editor.hang.set()
    assert (await editor.prompt(id, "next"))["stopReason"] == "end_turn"
    assert editor.of("tool_call_update")[-1]["status"] == "failed"
    assert not hf.waiting(session=id)


async def test_modes_decide_who_is_asked(serve, hf, tmp_path):
    """Auto asks nobody, read-only refuses, also what was allowed for the session; ask asks."""
    write = [("write_file", {"path": "a", "content": "x"})]
    editor = await serve(*[write, "So."] * 4, lends=("write",), mode="auto")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "write")
    assert editor.files
    assert not editor.requests
    editor.files.clear()
    assert await editor.call("session/set_mode", sessionId=id, modeId="read-only") == {}
    await editor.prompt(id, "write")
    assert not editor.files
    assert not editor.requests
    await editor.call("session/set_mode", sessionId=id, modeId="ask")
    editor.option = "allow_always"
    await editor.prompt(id, "write")
    assert editor.files
    assert len(editor.requests) == 1
    editor.files.clear()
    await editor.call("session/set_mode", sessionId=id, modeId="read-only")
    await editor.prompt(id, "write")
    assert not editor.files
    assert "read-only" in results(hf, id)[-1]["message"]
    modes = [update["currentModeId"] for update in editor.of("current_mode_update")]
    assert modes == ["read-only", "ask", "read-only"]


async def test_a_mode_that_there_is_not_is_refused(serve, tmp_path):
    """The error names those that there are."""
    editor = await serve()
    error = await editor.fail("session/set_mode", sessionId=await editor.new(tmp_path), modeId="yolo")
    assert error.code == -32602
    assert "read-only" in error.message


async def test_a_new_session_tells_its_modes(serve, tmp_path):
    """All three, and the current one, with the answer to new, load and resume."""
    editor = await serve(mode="read-only")
    made = await editor.call("session/new", cwd=str(tmp_path), mcpServers=[])
    assert made["modes"]["currentModeId"] == "read-only"
    assert [mode["id"] for mode in made["modes"]["availableModes"]] == ["ask", "read-only", "auto"]


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ((("read_file", {"path": "binary"}), ()), "not text"),
        ((("read_file", {"path": "odd"}), ("read",)), "no text"),
        ((("read_file", {"path": "huge"}), ("read",)), "more than"),
        ((("read_file", {"path": "missing"}), ("read",)), "no such file"),
        ((("run_command", {"command": "x", "timeout_s": 0}), ("terminal",)), "seconds"),
        ((("run_command", {"command": "x", "directory": ".."}), ("terminal",)), "outside"),
        ((("edit_file", {"path": "no", "old_text": "a", "new_text": "b"}), ("write",)), "no file"),
    ],
)
async def test_what_cannot_be_done_is_told_to_the_model(serve, hf, tmp_path, wish, says):
    """The call fails with a reason, is shown as failed, and the turn goes on."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    call, lends = wish
    editor = await serve([call], "I see.", lends=lends, mode="auto")
    editor.files = {str(tmp_path / "odd"): 5, str(tmp_path / "huge"): "x" * 1_100_000}
    id = await editor.new(tmp_path)
    assert (await editor.prompt(id, "go"))["stopReason"] == "end_turn"
    assert says in results(hf, id)[0]["message"]
    shown = editor.of("tool_call_update")[-1]
    assert shown["status"] == "failed"
    assert says in shown["content"][0]["content"]["text"]


async def test_an_editor_that_opens_no_terminal_is_told_on(serve, hf, tmp_path):
    """An answer without a terminal is a failure of the call, and nothing else."""
    editor = await serve([("run_command", {"command": "x"})], "So.", lends=("terminal",), mode="auto")
    editor.peer._methods["terminal/create"] = editor._note({})
    id = await editor.new(tmp_path)
    assert (await editor.prompt(id, "go"))["stopReason"] == "end_turn"
    assert "opened no terminal" in results(hf, id)[0]["message"]
