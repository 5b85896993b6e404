"""Our agent's sessions in an editor: listed, loaded, resumed, forked, closed, deleted."""

from __future__ import annotations

import asyncio
import json
import socket
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.apps.acp.agent.editor import EditorKit
from holdfast.apps.acp.agent.server import AgentServer
from holdfast.apps.wire.pipes import Pipe
from holdfast.library import Holdfast

COMMAND = {"type": "text", "text": "/status"}


def spoken(updates):
    """What a replay tells, in short: kinds and words."""
    told = []
    for update in updates:
        kind, content = update["sessionUpdate"], update.get("content")
        text = content["text"] if isinstance(content, dict) else update.get("status")
        told.append((kind, text))
    return [each for each in told if each[0] != "available_commands_update"]


async def load(editor, id, cwd, method="session/load"):
    """Load a session; the updates that came before the answer."""
    before = len(editor.updates)
    await editor.call(method, sessionId=id, cwd=str(cwd), mcpServers=[])
    return [update for _, update in editor.updates[before:]]


@pytest.mark.req("C14")
async def test_a_session_is_loaded_by_another_process_whole_and_in_order(serve, store_root, tmp_path):
    """Everything that was shown is shown again before the answer, and the model has it too."""
    calls = [("write_file", {"path": "a", "content": "x"}, "call-1")]
    editor = await serve(calls, "Done.", lends=("write",))
    id = await editor.new(tmp_path)
    await editor.prompt(id, "Write it")
    await editor.call("session/close", sessionId=id)
    with Holdfast(store_root, timers=False) as later:
        other = await serve("I know.", library=later)
        updates = await load(other, id, tmp_path)
        told = [each for each in spoken(updates) if each[0].endswith("chunk")]
        assert told == [("user_message_chunk", "Write it"), ("agent_message_chunk", "Done. ")]
        call = {}
        for update in updates:
            if update.get("toolCallId") == "call-1":
                call |= update
        assert call["status"] == "completed"
        assert call["content"] == [{"type": "diff", "path": str(tmp_path / "a"), "newText": "x"}]
        await other.prompt(id, "What did I ask?")
        assert "Write it" in str(other.script.requests[0][0])
        await other.call("session/close", sessionId=id)


async def test_resume_goes_on_without_a_replay(serve, hf, tmp_path):
    """Nothing is told again, and the model knows what was said."""
    editor = await serve("One.", "Two.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "first")
    await editor.call("session/close", sessionId=id)
    assert spoken(await load(editor, id, tmp_path, "session/resume")) == []
    await editor.prompt(id, "second")
    assert "first" in str(editor.script.requests[-1][0])


async def test_a_turn_that_a_crash_cut_off_is_shown_as_far_as_it_came(serve, hf, tmp_path):
    """The words that were streamed, and the open call as failed; "/continue" goes on with it."""
    with hf.session("cut") as session:
        session.append("metadata", {"cwd": str(tmp_path)})
        session.append("turn_start", {})
        session.user("Do it")
        session.delta("I am at ")
        session.tool_call("run_command", {"command": "make"}, id="call-9")
    editor = await serve("Going on.")
    updates = await load(editor, "cut", tmp_path)
    assert ("agent_message_chunk", "I am at ") in spoken(updates)
    end = [update for update in updates if update.get("toolCallId") == "call-9"][-1]
    assert end["status"] == "failed"
    assert "outcome unknown" in json.dumps(end)
    answer = await editor.prompt("cut", "/continue")
    assert answer["stopReason"] == "end_turn"
    assert editor.text().endswith("Going on. ")


async def test_sessions_are_listed_page_by_page_and_by_project(serve, hf, tmp_path):
    """Each once, newest first, with place, title and time; others' projects are left out."""
    editor = await serve()
    here, there = tmp_path / "here", tmp_path / "there"
    for number in range(60):
        with hf.session(f"s-{number:02}") as session:
            session.append("metadata", {"cwd": str(there if number % 3 == 0 else here)})
            session.user(f"Question {number}")
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await editor.call("session/list", **({"cursor": cursor} if cursor else {}))
        found += page["sessions"]
        cursor, pages = page.get("nextCursor"), pages + 1
    assert pages > 1
    assert sorted(row["sessionId"] for row in found) == [f"s-{n:02}" for n in range(60)]
    row = next(row for row in found if row["sessionId"] == "s-03")
    assert row["title"] == "Question 3"
    assert row["cwd"] == str(there)
    assert row["updatedAt"].endswith("Z")
    mine = await editor.call("session/list", cwd=str(there))
    assert {row["cwd"] for row in mine["sessions"]} == {str(there)}
    assert len(mine["sessions"]) == 20
    assert (await editor.call("session/list", cwd=str(tmp_path / "none")))["sessions"] == []
    assert (await editor.fail("session/list", cursor="nonsense")).code == -32602


async def test_a_fork_goes_its_own_way(serve, hf, tmp_path):
    """It knows what was said until then, works where it is told, and its parent stays."""
    editor = await serve("One.", "Two.")
    id = await editor.new(tmp_path)
    await editor.prompt(id, "first")
    events = hf.state(id).seq
    other = tmp_path / "other"
    made = await editor.call("session/fork", sessionId=id, cwd=str(other), mcpServers=[])
    assert made["sessionId"] != id
    assert made["modes"]["currentModeId"] == "ask"
    await editor.prompt(made["sessionId"], "second")
    assert "first" in str(editor.script.requests[-1][0])
    assert hf.state(id).seq == events
    assert hf.state(made["sessionId"]).metadata["cwd"] == str(other)


async def test_a_closed_session_stops_and_can_be_opened_again(serve, hf, tmp_path):
    """Its turn ends as cancelled, others may have it, and load brings it back."""
    editor = await serve(("thinking ", asyncio.Event(), ""), "Back.")
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "go"))
    await editor.shown()
    assert await editor.call("session/close", sessionId=id) == {}
    assert (await turn)["stopReason"] == "cancelled"
    assert (await editor.fail("session/prompt", sessionId=id, prompt=[COMMAND])).code == -32002
    assert (await editor.fail("session/close", sessionId=id)).code == -32002
    with hf.session(id, resume="always") as session:
        assert session.live_state.open_turn is None
    await load(editor, id, tmp_path)
    assert (await editor.prompt(id, "again"))["stopReason"] == "end_turn"


async def test_a_deleted_session_is_in_the_trash(serve, hf, tmp_path):
    """Open or not, it is gone from the list, can be brought back, and twice is once."""
    editor = await serve()
    id = await editor.new(tmp_path)
    await editor.prompt(id, "x")
    assert await editor.call("session/delete", sessionId=id) == {}
    assert await editor.call("session/delete", sessionId=id) == {}
    assert (await editor.call("session/list"))["sessions"] == []
    assert (await editor.fail("session/load", sessionId=id, cwd="/", mcpServers=[])).code == -32002
    hf.undelete(id)
    assert await load(editor, id, tmp_path)


async def test_what_another_process_has_open_is_refused_with_a_reason(serve, hf, store_root, tmp_path):
    """Load, resume and delete say that it is locked; nothing else stops."""
    program = (
        "import sys, holdfast\n"
        f"s = holdfast.open({str(store_root)!r}).session('held')\n"
        "s.user('mine'); print('ready', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", program, **pipes)
    try:
        await holder.stdout.readline()
        editor = await serve("Still here.")
        for method in ("load", "resume", "delete"):
            error = await editor.fail(f"session/{method}", sessionId="held", cwd="/", mcpServers=[])
            assert error.data == {"code": "locked"}
            assert "held" in error.message
        assert (await editor.prompt(await editor.new(tmp_path), "x"))["stopReason"] == "end_turn"
        made = await editor.call("session/fork", sessionId="held", cwd="/", mcpServers=[])
        assert made["sessionId"] != "held"
    finally:
        await holder.communicate(b"")


@pytest.mark.parametrize("method", ["load", "resume", "fork", "close", "prompt", "set_mode"])
async def test_a_session_that_there_is_not_is_told(serve, method):
    """With the protocol's code for it."""
    editor = await serve()
    params = {"cwd": "/", "mcpServers": [], "prompt": [COMMAND], "modeId": "ask"}
    assert (await editor.fail(f"session/{method}", sessionId="nobody", **params)).code == -32002


HOSTILE = [
    ("session/new", {}),
    ("session/new", {"cwd": 5}),
    ("session/new", {"cwd": "relative"}),
    ("session/new", {"cwd": "/a\0b"}),
    ("session/load", {"sessionId": "../../etc", "cwd": "/"}),
    ("session/load", {"sessionId": {"a": 1}, "cwd": "/"}),
    ("session/load", {"sessionId": "x"}),
    ("session/delete", {"sessionId": "a/b"}),
    ("session/delete", {}),
    ("session/list", {"cwd": "here"}),
    ("session/list", {"cursor": 7}),
    ("session/prompt", {"sessionId": None}),
    ("session/set_mode", {"sessionId": "x", "modeId": []}),
    ("initialize", {"protocolVersion": "one"}),
    ("initialize", {}),
]


@pytest.mark.parametrize(("method", "params"), HOSTILE)
async def test_wrong_parameters_are_refused(serve, method, params):
    """Before anything is done, with the protocol's code for it."""
    editor = await serve()
    assert (await editor.fail(method, **params)).code == -32602
    assert (await editor.call("session/list"))["sessions"] == []


BLOCKS = [
    [],
    [{}],
    [{"type": "text"}],
    [{"type": "text", "text": " "}],
    [{"type": "text", "text": 5}],
    [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}],
    [{"type": "image", "data": "no base64!", "mimeType": "image/png"}],
    [{"type": "image", "mimeType": "image/png"}],
    [{"type": "resource"}],
    [{"type": "resource", "resource": {"uri": "x"}}],
    [{"type": "resource", "resource": {"text": "x"}}],
    [{"type": ["text"]}],
]


@pytest.mark.parametrize("prompt", BLOCKS)
async def test_prompts_that_say_nothing_are_refused(serve, hf, tmp_path, prompt):
    """Nothing of them is recorded."""
    editor = await serve()
    id = await editor.new(tmp_path)
    before = hf.state(id).seq
    assert (await editor.fail("session/prompt", sessionId=id, prompt=prompt)).code == -32602
    assert hf.state(id).seq == before


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
members = st.sampled_from(["sessionId", "cwd", "cursor", "prompt", "modeId", "protocolVersion", "mcpServers"])
OF_SESSIONS = ("new", "load", "resume", "fork", "list", "close", "delete", "prompt", "set_mode", "x")
methods = st.sampled_from(["initialize", "authenticate", *(f"session/{name}" for name in OF_SESSIONS)])


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=methods, params=st.dictionaries(members, anything))
def test_no_request_ends_the_server(store_root, method, params):
    """Whatever comes, it is answered, and the next request too."""

    async def story():
        ends = []
        for end in socket.socketpair():
            reader, writer = await asyncio.open_connection(sock=end)
            ends.append((Pipe(reader, writer), writer))
        (mine, mine_writer), (theirs, theirs_writer) = ends
        with Holdfast(store_root, timers=False) as hf:
            kit = EditorKit(make_model=lambda: None)
            served = asyncio.ensure_future(AgentServer(hf, kit, mine).run())
            for id, (name, given_params) in enumerate([(method, params), ("session/list", {})]):
                frame = {"jsonrpc": "2.0", "id": id, "method": name, "params": given_params}
                theirs.write(json.dumps(frame).encode() + b"\n")
                answers = []
                while not answers:
                    frames = [json.loads(line) for line in await theirs.read()]
                    answers = [frame for frame in frames if frame.get("id") == id]
                assert len(answers) == 1
            assert "result" in answers[0]
            theirs.close()
            await served
            for writer in (mine_writer, theirs_writer):
                writer.close()
                await writer.wait_closed()

    asyncio.run(story())


async def test_a_session_of_another_kind_of_agent_is_not_taken_over(serve, hf):
    """It is told whose it is."""
    with hf.session("theirs", agent_id="other", agent_type="special") as session:
        session.user("hi")
    editor = await serve()
    error = await editor.fail("session/load", sessionId="theirs", cwd="/", mcpServers=[])
    assert error.data == {"code": "agent_type_mismatch"}


async def test_a_lost_editor_stops_turns_and_closes_sessions(serve, hf, tmp_path):
    """The end of the input ends everything in good order."""
    editor = await serve(("thinking ", asyncio.Event(), ""))
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "go"))
    await editor.shown()
    editor.pipe.close()
    await editor.served
    with pytest.raises(ConnectionError):
        await turn
    assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["cancelled"]
    assert next(hf.events(id, reverse=True, limit=1)).type == "closed"


async def test_a_session_is_loaded_while_it_answers(serve, tmp_path):
    """What was said is told again, open calls stay open, and the turn goes on."""
    go = asyncio.Event()
    editor = await serve(("half ", go, "done"))
    id = await editor.new(tmp_path)
    turn = asyncio.ensure_future(editor.prompt(id, "go"))
    await editor.shown()
    assert ("agent_message_chunk", "half ") in spoken(await load(editor, id, tmp_path))
    go.set()
    assert (await turn)["stopReason"] == "end_turn"
