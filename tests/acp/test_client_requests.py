"""What agents ask of a client: permission, files, terminals."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.apps.acp.client import ClientConfig, Files, create_or_resume
from holdfast.apps.acp.client.config import Requests
from holdfast.apps.wire.frames import RpcError
from holdfast.errors import Forbidden


@pytest.fixture
def library(store_root):
    """The sessions of an empty store."""
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def agent(agent_command):
    """The command of a scripted agent."""
    return agent_command


@pytest.fixture
def client(library, tmp_path):
    """Create or resume the session "talk" with an agent."""

    async def client(command, id="talk", **config):
        settings = ClientConfig(cwd=str(tmp_path), **config)
        return await create_or_resume(command, id, settings, library=library)

    return client


@pytest.mark.parametrize(
    ("permission", "decision", "status"),
    [
        ("deny", "deny", True),
        ("allow", "allow", None),
        (lambda request: "always", "allow", None),
        (lambda request: None, "cancelled", True),
        (lambda request: "no such option", "cancelled", True),
    ],
)
async def test_permission_is_given_as_configured(client, agent, library, *, permission, decision, status):
    """Refused unless someone says otherwise; the decision is recorded before it is sent."""
    async with await client(agent(), permission=permission) as session:
        await session.ask("use tool")
    _, event = library.events("talk", types={"permission"})
    assert event.data["decision"] == decision
    (result,) = library.events("talk", types={"tool_result"})
    assert result.data.get("is_error") == status


async def test_a_coroutine_may_decide(client, agent, library):
    """The function gets the call and its options."""
    seen = []

    async def decide(request):
        seen.append((request.title, request.option("allow")))
        return "yes"

    async with await client(agent(), permission=decide) as session:
        await session.ask("use tool")
    assert seen == [("List files", "yes")]


async def test_a_permission_that_waits_is_cancelled_with_its_turn(client, agent, library):
    """Cancelling answers the agent's question, as the protocol asks."""
    asked = asyncio.Event()

    async def never(request):
        asked.set()
        await asyncio.Event().wait()

    async with await client(agent(), permission=never) as session:
        turn = await session.send("use tool")
        await asked.wait()
        session.cancel()
        assert (await turn.answer()).stop_reason == "cancelled"
    _, event = library.events("talk", types={"permission"})
    assert event.data["decision"] == "cancelled"


async def test_a_callback_that_fails_is_answered_with_an_error(client, agent):
    """The agent is not left waiting."""

    def broken(request):
        raise RuntimeError("boom")

    async with await client(agent(), permission=broken) as session:
        assert (await session.ask("use tool")).stop_reason == "end_turn"


async def test_files_are_offered_only_with_a_handler(client, agent, journal, tmp_path):
    """Without one, the capability is not announced, and requests are refused."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with await client(agent()) as session:
        assert "no such method" in (await session.ask(f"read {tmp_path}/a.txt")).text
        assert "no such method" in (await session.ask("run ls")).text
    async with await client(agent(), id="two", files=Files(str(tmp_path))) as session:
        assert "one\\ntwo" in (await session.ask(f"read {tmp_path}/a.txt")).text
        assert "no such method" in (await session.ask(f"write {tmp_path}/b.txt")).text
    offered = [frame["params"]["clientCapabilities"] for frame in journal("initialize")]
    assert offered[0] == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    assert offered[1]["fs"] == {"readTextFile": True, "writeTextFile": False}
    assert not (tmp_path / "b.txt").exists()


async def test_files_can_be_written_below_the_root(client, agent, tmp_path):
    """With ``writes``; nothing outside is reached, by no path and by no symlink."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("hush")
    files = Files(str(root), writes=True)
    async with await client(agent(), files=files) as session:
        await session.ask(f"write {root}/sub/new.txt")
        assert (root / "sub" / "new.txt").read_text() == "written"
        for place in ("../x", "out/x", "file", "missing/x"):
            answer = await session.ask(f"write {root}/{place}")
            assert '"message"' in answer.text, place
        for place in ("../secret", "out/secret", "file", "nothing"):
            assert "hush" not in (await session.ask(f"read {root}/{place}")).text
    assert (tmp_path / "secret").read_text() == "hush"
    assert not (tmp_path / "x").exists()


async def test_terminals_go_to_their_handler(client, agent):
    """Whoever gives a terminal gets the calls."""

    class Terminal:
        async def call(self, method, params):
            return {"terminalId": f"{method}-{params['command']}"}

    async with await client(agent(), terminal=Terminal()) as session:
        assert "create-ls" in (await session.ask("run ls")).text


@pytest.mark.parametrize(
    ("wish", "content"),
    [
        ({}, "1\n2\n3\n"),
        ({"line": 2}, "2\n3\n"),
        ({"line": 2, "limit": 1}, "2\n"),
        ({"limit": 2}, "1\n2\n"),
        ({"line": 9}, ""),
        ({"line": -1, "limit": -1}, ""),
    ],
)
async def test_a_part_of_a_file(tmp_path, wish, content):
    """Lines count from 1."""
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    requests = Requests(ClientConfig(files=Files(str(tmp_path))))
    params = {"path": str(tmp_path / "a.txt"), **wish}
    found = await requests.answer("fs/read_text_file", params, asyncio.Event())
    assert found == {"content": content}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", None),
        ("fs/read_text_file", {}),
        ("fs/read_text_file", {"path": "relative"}),
        ("fs/read_text_file", {"path": "/a\0b"}),
        ("fs/write_text_file", {"path": "/x"}),
        ("session/request_permission", {"options": None}),
        ("session/unknown", {}),
        ("terminal/create", {}),
    ],
)
async def test_wrong_questions_are_answered(tmp_path, method, params):
    """With the error that JSON-RPC has for them."""
    requests = Requests(ClientConfig(files=Files(str(tmp_path), writes=True)))
    with pytest.raises(RpcError):
        await requests.answer(method, params, asyncio.Event())


async def test_a_function_may_give_an_awaitable(client, agent, library):
    """And a request without options that fit is cancelled."""

    async def later():
        return "yes"

    async with await client(agent(), permission=lambda request: later()) as session:
        await session.ask("use tool")
    _, event = library.events("talk", types={"permission"})
    assert event.data["decision"] == "allow"
    strange = {"toolCall": None, "options": [{"optionId": "x", "kind": "perhaps"}]}
    found = await Requests(ClientConfig()).answer("session/request_permission", strange, asyncio.Event())
    assert found == {"outcome": {"outcome": "cancelled"}}


def test_a_read_only_handler_writes_nothing(tmp_path):
    """Even if it is asked to."""
    with pytest.raises(Forbidden):
        Files(str(tmp_path)).write(str(tmp_path / "x"), "text")
